package inject_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/goagnes/storage/inject"
)

// disk is what lies below a directory: files with their contents, directories
// with a slash.
func disk(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		if err != nil || name == "." {
			return err
		}
		if d.IsDir() {
			all[name+"/"] = ""
			return nil
		}
		b, err := os.ReadFile(path)
		all[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// survivors returns the different disks that a loss of power at a moment leaves.
func survivors(t *testing.T, r *inject.Recorder, moment int, loss inject.Loss, seeds int) []map[string]string {
	t.Helper()
	var all []map[string]string
	for seed := range seeds {
		dir := t.TempDir()
		if err := r.Survivor(moment, loss, uint64(seed), dir); err != nil {
			t.Fatal(err)
		}
		d := disk(t, dir)
		if !slices.ContainsFunc(all, func(o map[string]string) bool { return maps.Equal(o, d) }) {
			all = append(all, d)
		}
	}
	return all
}

func record(t *testing.T, root string) *inject.Recorder {
	t.Helper()
	r, err := inject.Record(nil, root)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// script runs steps through a file system: "make F", "write F TEXT" at its end,
// "sync F", "cut F", "mkdir D", "syncdir D", "rename A B", "exchange A B",
// "remove F", "removeall D".
func script(t *testing.T, fsys storage.FS, root, steps string) {
	t.Helper()
	at := func(name string) string { return filepath.Join(root, name) }
	for step := range strings.SplitSeq(steps, "; ") {
		w := append(strings.Fields(step), "", "")
		var err error
		switch w[0] {
		case "mkdir":
			err = fsys.Mkdir(at(w[1]), 0o777)
		case "syncdir":
			err = fsys.SyncDir(at(w[1]))
		case "rename":
			err = fsys.Rename(at(w[1]), at(w[2]), 0)
		case "exchange":
			err = fsys.Rename(at(w[1]), at(w[2]), unix.RENAME_EXCHANGE)
		case "remove":
			err = fsys.Remove(at(w[1]))
		case "removeall":
			err = fsys.RemoveAll(at(w[1]))
		default:
			var f *storage.File
			if f, err = storage.OpenFile(fsys, at(w[1]), storage.Flags{Write: w[0] != "make", Create: w[0] == "make", Buffered: true}); err != nil {
				break
			}
			n, _ := f.Size()
			switch w[0] {
			case "write":
				_, err = f.WriteAt([]byte(w[2]), n)
			case "sync":
				err = f.Sync()
			case "cut":
				err = f.Truncate(0)
			}
			f.Close()
		}
		if err != nil {
			t.Fatalf("%s: %v", step, err)
		}
	}
}

// TestPowerLossRules holds what survives the end of small scripts against what
// the rules say by hand.
func TestPowerLossRules(t *testing.T) {
	for _, c := range []struct{ steps, nothing, all string }{ // the disks of LoseNothing and LoseAll
		{"make f; write f abc", "old=xyz f=abc", "old=xyz"},
		{"make f; write f abc; sync f", "old=xyz f=abc", "old=xyz"}, // the name is not durable
		{"make f; write f abc; syncdir .", "old=xyz f=abc", "old=xyz f="},
		{"make f; write f abc; sync f; syncdir .", "old=xyz f=abc", "old=xyz f=abc"},
		{"make f; write f abc; sync f; syncdir .; write f def", "old=xyz f=abcdef", "old=xyz f=abc"},
		{"write old 12; sync old", "old=xyz12", "old=xyz12"},
		{"cut old", "old=", "old=xyz"},
		{"cut old; write old 1; sync old", "old=1", "old=1"},
		{"remove old", "", "old=xyz"},
		{"remove old; syncdir .", "", ""},
		{"mkdir d; make d/f; write d/f a; sync d/f; syncdir d", "old=xyz d/= d/f=a", "old=xyz"},
		{"mkdir d; make d/f; write d/f a; sync d/f; syncdir .", "old=xyz d/= d/f=a", "old=xyz d/="},
		{"mkdir d; make d/f; write d/f a; sync d/f; syncdir d; syncdir .", "old=xyz d/= d/f=a", "old=xyz d/= d/f=a"},
		{"mkdir d; syncdir .; make d/f; removeall d", "old=xyz", "old=xyz d/="},
		{"make f; write f abc; sync f; syncdir .; rename f old", "old=abc", "old=xyz f=abc"},
		{"make f; write f abc; rename f old; syncdir .", "old=abc", "old="}, // renamed before its bytes were safe
		{"mkdir d; syncdir .; exchange d old", "d=xyz old/=", "old=xyz d/="},
		{"mkdir d; exchange d old; syncdir .; remove d", "old/=", "d=xyz old/="},
	} {
		root := t.TempDir()
		if err := os.WriteFile(filepath.Join(root, "old"), []byte("xyz"), 0o666); err != nil {
			t.Fatal(err)
		}
		r := record(t, root)
		script(t, r, root, c.steps)
		for loss, want := range map[inject.Loss]string{inject.LoseNothing: c.nothing, inject.LoseAll: c.all} {
			files := map[string]string{}
			for _, f := range strings.Fields(want) {
				name, text, _ := strings.Cut(f, "=")
				files[name] = text
			}
			if got := survivors(t, r, r.Moments()-1, loss, 1); !maps.Equal(got[0], files) {
				t.Errorf("%s: loss %d leaves %q, want %q", c.steps, loss, got[0], files)
			}
		}
		if got := survivors(t, r, 0, inject.LoseSome, 1); !maps.Equal(got[0], map[string]string{"old": "xyz"}) {
			t.Errorf("%s: before the first step there is %q", c.steps, got[0])
		}
		if got, want := survivors(t, r, r.Moments()-1, inject.LoseNothing, 1)[0], disk(t, root); !maps.Equal(got, want) {
			t.Errorf("%s: loss of nothing leaves %q, there is %q", c.steps, got, want)
		}
	}
}

// TestPowerLossSome holds the random losses against all that may be.
func TestPowerLossSome(t *testing.T) {
	root := t.TempDir()
	r := record(t, root)
	script(t, r, root, "mkdir a; mkdir b; rename a c; make f; sync f")
	names := func(loss inject.Loss) map[string]bool {
		set := map[string]bool{}
		for _, d := range survivors(t, r, r.Moments()-1, loss, 200) {
			set[strings.Join(slices.Sorted(maps.Keys(d)), " ")] = true
		}
		return set
	}
	// In a journal's order, and in none.
	ordered := map[string]bool{"": true, "a/": true, "a/ b/": true, "b/ c/": true, "b/ c/ f": true}
	if got := names(inject.LoseLatest); !maps.Equal(got, ordered) {
		t.Errorf("LoseLatest leaves %v", got)
	}
	any := map[string]bool{"": true, "b/": true, "f": true, "b/ f": true, "a/": true, "a/ b/": true, "a/ f": true, "a/ b/ f": true, "c/": true, "b/ c/": true, "c/ f": true, "b/ c/ f": true}
	if got := names(inject.LoseSome); !maps.Equal(got, any) {
		t.Errorf("LoseSome leaves %v", got)
	}
}

// TestPowerLossPages writes pages through each engine and loses some.
func TestPowerLossPages(t *testing.T) {
	for _, engine := range []string{storage.IOUring, storage.IOPread} {
		root := t.TempDir()
		r := record(t, root)
		p := storage.NewPool(storage.PoolOptions{IO: engine, FS: r})
		w, err := storage.NewWriter(p, filepath.Join(root, "file"), 3*page, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := bytes.Repeat([]byte("goagnes "), 8*page/8)
		if _, err := w.Write(want); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := r.SyncDir(root); err != nil {
			t.Fatal(err)
		}
		p.Close()
		for loss := range inject.LoseLatest + 1 {
			if got := survivors(t, r, r.Moments()-1, loss, 3); len(got) != 1 || got[0]["file"] != string(want) {
				t.Errorf("%s: what was synced does not survive a loss %d", engine, loss)
			}
		}
		// Half-way: the file may be there with any of its sectors.
		unsynced := 0
		for i := range r.Moments() {
			if r.Moment(i) == "sync file" {
				unsynced = i
			}
		}
		kept, lost, torn := 0, 0, 0
		for _, d := range survivors(t, r, unsynced, inject.LoseSome, 40) {
			b := []byte(d["file"])
			for ; len(b) >= page; b = b[page:] {
				n := 0
				for at := 0; at < page; at += 512 {
					if bytes.Equal(b[at:at+512], want[:512]) {
						n++
					}
				}
				switch n {
				case 0:
					lost++
				case page / 512:
					kept++
				default:
					torn++
				}
			}
		}
		if kept == 0 || lost == 0 || torn == 0 {
			t.Errorf("%s: %d pages are kept, %d lost, %d torn: each must occur", engine, kept, lost, torn)
		}
	}
}

// A write that is under way when a sync begins is not made durable by it.
func TestPowerLossWriteDuringSync(t *testing.T) {
	root := t.TempDir()
	r := record(t, root)
	h, err := r.OpenFile(filepath.Join(root, "f"), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	w := h.(storage.Watcher)
	write := func(text string, between func()) {
		tr := storage.Transfer{Write: true, Buf: []byte(text)}
		if _, err := w.Begin(tr); err != nil {
			t.Fatal(err)
		}
		n, err := h.WriteAt(tr.Buf, 0)
		between()
		if _, err := w.End(tr, n, err); err != nil {
			t.Fatal(err)
		}
	}
	sync := func() {
		if err := h.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	write("abc", func() {})
	write("def", sync)
	if err := r.SyncDir(root); err != nil {
		t.Fatal(err)
	}
	if got := survivors(t, r, r.Moments()-1, inject.LoseAll, 1)[0]["f"]; got != "abc" {
		t.Errorf("%q is durable", got)
	}
	sync()
	if got := survivors(t, r, r.Moments()-1, inject.LoseAll, 1)[0]["f"]; got != "def" {
		t.Errorf("after another sync %q is durable", got)
	}
	if got := fmt.Sprint(r.Moment(0), "; ", r.Moment(r.Moments()-1)); got != "make f; the end" {
		t.Errorf("the first and last moment are %q", got)
	}
}
