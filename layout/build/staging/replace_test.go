package staging

// A build that begins while another one still removes the store that it replaced.

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
)

// hookedRemoval calls hook before a directory is removed.
type hookedRemoval struct {
	storage.FS
	hook func(dir string)
}

func (f hookedRemoval) RemoveAll(dir string) error {
	f.hook(dir)
	return f.FS.RemoveAll(dir)
}

func TestBuildWhileTheReplacedStoreIsRemoved(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store")
	write := func(dir, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, layout.ManifestFile), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(path, 0o777); err != nil {
		t.Fatal(err)
	}
	write(path, "old")
	var second *staging
	fsys := hookedRemoval{storage.OS, func(string) {
		if second != nil {
			return
		}
		var err error
		if second, err = stage(storage.OS, path, true, func(string) {}); err != nil {
			t.Fatal(err)
		}
		write(second.dir, "second")
	}}
	first, err := stage(fsys, path, true, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	write(first.dir, "first")
	if err := first.commit(true, func(string) {}); err != nil {
		t.Fatal(err)
	}
	if second == nil {
		t.Fatal("the replaced store was not removed")
	}
	if text, err := os.ReadFile(filepath.Join(second.dir, layout.ManifestFile)); string(text) != "second" {
		t.Fatalf("the second build's file holds %q: %v", text, err)
	}
	if err := second.commit(true, func(string) {}); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(path, layout.ManifestFile)); string(text) != "second" {
		t.Errorf("the store's file holds %q: %v", text, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("%d entries beside the store: %v", len(entries)-1, err)
	}
}
