package storage

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goagnes/goagnes/tests/fixture/child"
)

func mapped(t testing.TB, n int) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(b) })
	return b
}

// movePages writes pages through the pool from mem and reads them back into other
// pages of it.
func movePages(t *testing.T, p *Pool, f *File, mem []byte, salt byte) {
	t.Helper()
	half := len(mem) / 2
	for i := range half {
		mem[i] = byte(i)*7 + byte(i/page) + salt
	}
	clear(mem[half:])
	for _, write := range []bool{true, false} {
		done := make(chan *Request, half/page)
		for at := 0; at < half; at += page {
			from := at
			if !write {
				from += half
			}
			p.Submit(&Request{File: f, Offset: int64(at), Buf: mem[from : from+page], Write: write, Done: func(r *Request) { done <- r }})
		}
		for range half / page {
			if r := <-done; r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
	if !bytes.Equal(mem[:half], mem[half:]) {
		t.Fatal("what was read is not what was written")
	}
}

func TestRegister(t *testing.T) {
	eachEngine(t, func(t *testing.T, engine string) {
		path, _ := randomFile(t, 8*page)
		f := openFile(t, path, Flags{Write: true, Buffered: engine == IOBuffered})
		p := NewPool(PoolOptions{IO: engine, Depth: 3})
		mem, other := mapped(t, 16*page), mapped(t, 16*page)
		unregister, ok := p.Register(mem)
		if engine != IOUring {
			if ok || p.Counters().RegisteredBytes != 0 {
				t.Error("memory is registered without a ring")
			}
			unregister()
			p.Close()
			return
		}
		if !ok {
			p.Close()
			t.Skip("RLIMIT_MEMLOCK or the kernel forbids to register 64 KiB")
		}
		if n := p.Counters().RegisteredBytes; n != int64(len(mem)) {
			t.Errorf("%d bytes are registered, not %d", n, len(mem))
		}
		found := func(b []byte) bool { _, ok := p.ring.fixed.find(b); return ok }
		if !found(mem) || !found(mem[15*page:]) || found(other[:page]) {
			t.Error("a request into registered memory does not find it, or another does")
		}
		movePages(t, p, f, mem, 1)
		movePages(t, p, f, other, 2)
		unregister()
		if found(mem) || p.ring.fixed.bytes != 0 {
			t.Error("unregistered memory is found")
		}
		movePages(t, p, f, mem, 3)
		// Every entry of the table can be taken, and no more.
		var all []func()
		for i := range fixedEntries + 1 {
			u, ok := p.Register(mem[:page])
			if i == fixedEntries && ok {
				t.Errorf("more than %d registrations", fixedEntries)
			}
			all = append(all, u)
		}
		all[3]()
		movePages(t, p, f, mem, 4)
		p.Close()
		for _, u := range all { // after the pool, and twice
			u()
		}
	})
}

// Where RLIMIT_MEMLOCK forbids registering, everything works without it. The limit is
// that of a process of its own.
func TestRegisterLimit(t *testing.T) {
	if RingRefusal() != nil {
		t.Skip(RingRefusal())
	}
	if !child.Argument(t, new(string)) {
		out, err := child.Command(t, "TestRegisterLimit", "").CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("registered 0 of")) {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	runtime.LockOSThread() // capabilities are a thread's
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&head, &caps[0]); err != nil {
		t.Fatal(err)
	}
	caps[0].Effective &^= 1 << unix.CAP_IPC_LOCK
	if err := unix.Capset(&head, &caps[0]); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 64 << 10, Max: 64 << 10}); err != nil {
		t.Fatal(err)
	}
	path, _ := randomFile(t, 8*page)
	f := openFile(t, path, Flags{Write: true})
	p := NewPool(PoolOptions{IO: IOUring})
	defer p.Close()
	if p.Engine() != IOUring { // kernels before 5.12 count the ring itself
		fmt.Println("registered 0 of anything:", p.Refusal())
		return
	}
	mem := mapped(t, 1<<20)
	unregister, ok := p.Register(mem)
	defer unregister()
	if ok {
		t.Error("1 MiB is registered where 64 KiB may be locked")
	}
	movePages(t, p, f, mem[:16*page], 1)
	fmt.Printf("registered %d of %d bytes\n", p.Counters().RegisteredBytes, len(mem))
}
