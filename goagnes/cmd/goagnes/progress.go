// Progress on standard error: a bar on a terminal, a line now and then otherwise.
package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	barEvery  = 100 * time.Millisecond
	lineEvery = 5 * time.Second
	barWidth  = 30
)

// progress shows how far a stage is. Safe for concurrent use.
type progress struct {
	mu struct {
		sync.Mutex
		stage string
		last  time.Time
		dirty bool // a bar stands on the line
	}
	said     map[string]bool // warnings that were printed
	w        io.Writer
	terminal bool
	now      func() time.Time
}

func newProgress(w *os.File) *progress {
	_, err := unix.IoctlGetTermios(int(w.Fd()), unix.TCGETS)
	return &progress{w: w, terminal: err == nil, now: time.Now}
}

// report is what the engine calls; total 0 means that it is not known.
func (p *progress) report(stage string, done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	every := lineEvery
	if p.terminal {
		every = barEvery
	}
	if stage == p.mu.stage && now.Sub(p.mu.last) < every {
		return
	}
	p.mu.stage, p.mu.last = stage, now
	percent := ""
	switch {
	case total > 0:
		percent = fmt.Sprintf("%3d %%", min(100, 100*done/total))
	case done > 0:
		percent = strconv.FormatInt(done, 10)
	}
	if !p.terminal {
		fmt.Fprintln(p.w, strings.TrimRight(stage+" "+percent, " "))
		return
	}
	filled := 0
	if total > 0 {
		filled = int(min(barWidth, barWidth*done/total))
	}
	fmt.Fprintf(p.w, "\r\x1b[K%-24s %s%s %s", stage, strings.Repeat("#", filled), strings.Repeat(".", barWidth-filled), percent)
	p.mu.dirty = true
}

// warn prints a line that is no error; the same one once.
func (p *progress) warn(text string) {
	p.clear()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.said[text] {
		return
	}
	if p.said == nil {
		p.said = make(map[string]bool)
	}
	p.said[text] = true
	fmt.Fprintln(p.w, "goagnes: warning: "+strings.Join(strings.Fields(text), " "))
}

// clear takes the bar away, before anything else is printed.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.dirty {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.mu.dirty = false
	}
}
