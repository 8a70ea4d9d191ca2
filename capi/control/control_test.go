package control_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goagnes/goagnes/capi/control"
	"github.com/goagnes/goagnes/capi/control/controltest"
)

// await polls a task to its end.
func await(t *testing.T, p *control.Plane, task int64) map[string]any {
	t.Helper()
	for range 500 {
		text, err := p.Poll(task, 20*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		var status map[string]any
		if err := json.Unmarshal([]byte(text), &status); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if status["state"] != "running" {
			return status
		}
	}
	t.Fatal("the task did not end within 10 s")
	return nil
}

func run(t *testing.T, p *control.Plane, kind, request string) map[string]any {
	t.Helper()
	task, err := p.Start(kind, request)
	if err != nil {
		t.Fatal(err)
	}
	return await(t, p, task)
}

func openLoader(t *testing.T, p *control.Plane, request string) (store, loader int64) {
	t.Helper()
	opened := run(t, p, "open", `{"path":"any"}`)["result"].(map[string]any)
	store = int64(opened["store"].(float64))
	made := run(t, p, "loader", strings.TrimSuffix(request, "}")+`,"store":`+jsonInt(store)+`}`)
	result, ok := made["result"].(map[string]any)
	if !ok {
		t.Fatalf("loader: %v", made)
	}
	return store, int64(result["loader"].(float64))
}

func jsonInt(n int64) string {
	text, _ := json.Marshal(n)
	return string(text)
}

func wantClass(t *testing.T, err error, class, part string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want class %s with %q", class, part)
	}
	if control.Class(err) != class || !strings.Contains(err.Error(), part) {
		t.Errorf("%s; want class %s with %q", control.Text(err), class, part)
	}
}

func TestTasks(t *testing.T) {
	p := control.New(controltest.Engine{})
	for _, c := range []struct{ kind, request, state, want string }{
		{"echo", `{"a":[1,2]}`, "done", `{"a":[1,2]}`},
		{"panic", `{}`, "failed", "internal: panic: controltest: asked to"},
		{"fail", `{"class":"store","message":"bad\u0000block"}`, "failed", "store: bad\ufffdblock"},
		{"unmarshalable", `{}`, "failed", "internal: json: unsupported value"},
		{"nothing", `{}`, "failed", `usage: no work is named "nothing"`},
		{"open", `{"path":"missing"}`, "failed", "store: missing: no such store"},
	} {
		status := run(t, p, c.kind, c.request)
		text, _ := json.Marshal(status["result"])
		if message, ok := status["error"].(string); ok {
			text = []byte(message)
		}
		if status["state"] != c.state || !strings.Contains(string(text), c.want) {
			t.Errorf("%s %s: %v; want %s with %q", c.kind, c.request, status, c.state, c.want)
		}
	}
	if n := p.Open(); n != 0 {
		t.Errorf("%d handles are left", n)
	}
}

func TestRequestsAreChecked(t *testing.T) {
	p := control.New(controltest.Engine{})
	for _, request := range []string{"", "{", "nonsense", `{"store":"x"}`, `{"path":3}`} {
		_, err := p.Start("echo", request)
		wantClass(t, err, "usage", "request")
	}
	_, err := p.Start("echo", `"`+strings.Repeat("a", control.MaxRequestBytes)+`"`)
	wantClass(t, err, "usage", "at most")
	_, err = p.Start("loader", `{"store":99}`)
	wantClass(t, err, "usage", "there is no store with handle 99")
}

func TestCancelAndProgress(t *testing.T) {
	p := control.New(controltest.Engine{})
	task, err := p.Start("sleep", `{}`)
	if err != nil {
		t.Fatal(err)
	}
	seen := false
	for range 100 {
		text, err := p.Poll(task, 5*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		var s control.Status
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		if seen = s.Stage == "sleep" && s.Done > 0; seen {
			break
		}
	}
	if !seen {
		t.Error("no progress was reported")
	}
	if err := p.Cancel(task); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	status := await(t, p, task)
	if status["state"] != "failed" || !strings.HasPrefix(status["error"].(string), "interrupted: ") {
		t.Errorf("after Cancel: %v", status)
	}
	if took := time.Since(begin); took > 200*time.Millisecond {
		t.Errorf("Cancel took %v", took)
	}
	_, err = p.Poll(task, 0)
	wantClass(t, err, "closed", "the task is closed")
}

func TestTooManyTasks(t *testing.T) {
	p := control.New(controltest.Engine{})
	var tasks []int64
	for range control.MaxTasks {
		task, err := p.Start("sleep", `{}`)
		if err != nil {
			t.Fatal(err)
		}
		tasks = append(tasks, task)
	}
	_, err := p.Start("sleep", `{}`)
	wantClass(t, err, "usage", "tasks are running")
	for _, task := range tasks {
		if err := p.Abandon(task); err != nil {
			t.Fatal(err)
		}
	}
	for range 200 {
		if task, err := p.Start("echo", `{}`); err == nil {
			await(t, p, task)
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Error("abandoned tasks still count after 1 s")
}

func TestAbandonedOpenIsClosed(t *testing.T) {
	p := control.New(controltest.Engine{})
	for _, path := range []string{"any", "slow"} {
		task, err := p.Start("open", `{"path":"`+path+`"}`)
		if err != nil {
			t.Fatal(err)
		}
		if path == "any" {
			time.Sleep(50 * time.Millisecond) // it has ended by now
		}
		if err := p.Abandon(task); err != nil {
			t.Fatal(err)
		}
		for i := 0; p.Open() != 0; i++ {
			if i > 400 {
				t.Fatalf("%s: the opened store stays open", path)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func TestEpochs(t *testing.T) {
	orphaned := controltest.Orphaned.Load()
	p := control.New(controltest.Engine{})
	store, loader := openLoader(t, p, `{"batches":3}`)
	for e := range int64(3) {
		number, err := p.Begin(loader)
		if err != nil {
			t.Fatal(err)
		}
		for i := range int64(3) {
			b, err := p.Next(loader, number, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if b.Index != i || *(*int64)(b.Arrays[1].Pointer) != e {
				t.Errorf("minibatch %d of epoch %d; want %d of %d", b.Index, *(*int64)(b.Arrays[1].Pointer), i, e)
			}
			b.Release()
		}
		for range 2 {
			if _, err := p.Next(loader, number, time.Second); !errors.Is(err, io.EOF) {
				t.Errorf("after the last minibatch: %v", err)
			}
		}
		if e == 2 {
			_, err := p.Next(loader, number-1, time.Second)
			wantClass(t, err, "closed", "newer iterator")
		}
	}
	if err := p.SetEpoch(loader, 1<<32); err == nil {
		t.Error("epoch 2^32 was taken")
	}
	if err := p.CloseStore(store); err != nil {
		t.Fatal(err)
	}
	_, err := p.Next(loader, 1, 0)
	wantClass(t, err, "closed", "the loader is closed")
	if p.Open() != 0 || controltest.Orphaned.Load() != orphaned {
		t.Errorf("%d handles and %d slabs are left", p.Open(), controltest.Orphaned.Load()-orphaned)
	}
}

func TestGivingUpAWaitLosesNothing(t *testing.T) {
	p := control.New(controltest.Engine{})
	store, loader := openLoader(t, p, `{"batches":4,"delay":30}`)
	number, err := p.Begin(loader)
	if err != nil {
		t.Fatal(err)
	}
	timeouts := 0
	for want := int64(0); ; {
		b, err := p.Next(loader, number, time.Millisecond)
		if errors.Is(err, control.ErrTimeout) {
			timeouts++
			continue
		}
		if errors.Is(err, io.EOF) {
			if want != 4 || timeouts == 0 {
				t.Errorf("%d minibatches after %d timeouts; want 4 after some", want, timeouts)
			}
			break
		}
		if err != nil || b.Index != want {
			t.Fatalf("minibatch %v, %v; want %d", b, err, want)
		}
		b.Release()
		want++
	}
	if err := p.CloseStore(store); err != nil {
		t.Error(err)
	}
}

func TestFailuresEndTheEpochOnly(t *testing.T) {
	p := control.New(controltest.Engine{})
	for _, c := range []struct{ request, class, part string }{
		{`{"fail_at":1}`, "io", "minibatch failed"},
		{`{"panic_at":1}`, "internal", "minibatch panicked"},
	} {
		store, loader := openLoader(t, p, c.request)
		number, err := p.Begin(loader)
		if err != nil {
			t.Fatal(err)
		}
		b, err := p.Next(loader, number, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		b.Release()
		for range 2 {
			_, err = p.Next(loader, number, time.Second)
			wantClass(t, err, c.class, c.part)
		}
		if number, err = p.Begin(loader); err != nil {
			t.Fatal(err)
		}
		if b, err = p.Next(loader, number, time.Second); err != nil {
			t.Fatalf("the next epoch: %v", err)
		}
		b.Release()
		if err := p.CloseStore(store); err != nil {
			t.Error(err)
		}
	}
}

func TestLeavingAndClosingWhileWaiting(t *testing.T) {
	orphaned := controltest.Orphaned.Load()
	for _, end := range []string{"leave", "close loader", "close store", "begin"} {
		p := control.New(controltest.Engine{})
		store, loader := openLoader(t, p, `{"block_at":0}`)
		number, err := p.Begin(loader)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				_, err := p.Next(loader, number, 10*time.Second)
				if err == nil || control.Class(err) != "closed" {
					t.Errorf("%s: Next returned %v", end, err)
				}
			})
		}
		time.Sleep(20 * time.Millisecond)
		begin := time.Now()
		switch end {
		case "leave":
			err = p.Leave(loader, number)
		case "close loader":
			err = p.CloseLoader(loader)
		case "close store":
			err = p.CloseStore(store)
		case "begin":
			_, err = p.Begin(loader)
		}
		if err != nil {
			t.Errorf("%s: %v", end, err)
		}
		wg.Wait()
		if took := time.Since(begin); took > 200*time.Millisecond {
			t.Errorf("%s: waiting calls returned after %v", end, took)
		}
		for range 2 {
			if err := errors.Join(p.CloseLoader(loader), p.CloseStore(store)); err != nil {
				t.Errorf("%s: closing: %v", end, err)
			}
		}
	}
	if n := controltest.Orphaned.Load() - orphaned; n != 0 {
		t.Errorf("%d slabs are left", n)
	}
}

// An epoch left between a minibatch's preparation and its delivery releases it.
func TestLeftMinibatchIsReleased(t *testing.T) {
	orphaned := controltest.Orphaned.Load()
	p := control.New(controltest.Engine{})
	store, loader := openLoader(t, p, `{"delay":1,"batches":1000}`)
	for i := range 50 {
		number, err := p.Begin(loader)
		if err != nil {
			t.Fatal(err)
		}
		b, err := p.Next(loader, number, time.Duration(i%5)*time.Millisecond)
		if err == nil {
			b.Release()
		}
		if err := p.Leave(loader, number); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.CloseStore(store); err != nil {
		t.Fatal(err)
	}
	if n := controltest.Orphaned.Load() - orphaned; n != 0 {
		t.Errorf("%d slabs are left", n)
	}
}

func TestHandlesHaveKinds(t *testing.T) {
	p := control.New(controltest.Engine{})
	store, loader := openLoader(t, p, `{"batches":4}`)
	_, err := p.Begin(store)
	wantClass(t, err, "usage", "is not a loader")
	_, err = p.StoreInfo(loader)
	wantClass(t, err, "usage", "is not a store")
	_, err = p.StoreInfo(-1)
	wantClass(t, err, "usage", "there is no store with handle -1")
	_, err = p.Describe(loader, "nothing")
	wantClass(t, err, "usage", "nothing")
	for _, kind := range []string{"settings", "stats", "explain"} {
		if text, err := p.Describe(loader, kind); err != nil || !strings.Contains(text, kind) {
			t.Errorf("Describe %s: %s, %v", kind, text, err)
		}
	}
	if err := p.CloseStore(store); err != nil {
		t.Fatal(err)
	}
	_, err = p.StoreInfo(store)
	wantClass(t, err, "closed", "the store is closed")
}

func TestClosingAStoreCancelsItsTasks(t *testing.T) {
	p := control.New(controltest.Engine{})
	opened := run(t, p, "open", `{"path":"any"}`)["result"].(map[string]any)
	store := int64(opened["store"].(float64))
	task, err := p.Start("sleep", `{"store":`+jsonInt(store)+`}`)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	if err := p.CloseStore(store); err != nil {
		t.Fatal(err)
	}
	if status := await(t, p, task); status["state"] != "failed" {
		t.Errorf("the task: %v", status)
	}
}
