// Package report turns the JSON document of a run, as `goagnes train --json`,
// `goagnes bench prepare --json`, `goagnes build --json`, ga.train and their
// kin print it, into one self-contained HTML page: time by stage, sizes and
// latencies of I/O, bandwidth over time against the device's, memory against
// the budget, accuracy by epoch.
//
// # Invariants
//
//   - The page is a pure function of the document: no clock, no host, no path
//     but those in the document.
//   - It needs nothing else: styles and drawings are inline, there is no script,
//     and its content policy forbids loading anything.
//   - What a document does not hold is left out of the page, never made up.
//
// # Limits
//
// A document is at most MaxDocument bytes. A curve is drawn through at most
// maxPoints points, of which each stands for an equal number of epochs (their
// mean); a list of bars holds the maxBars longest and says how many were left
// out.
package report

import (
	_ "embed" // the page's template
	"fmt"
	"html/template"
	"io"
)

// MaxDocument is the size of the largest document that is read, in bytes.
const MaxDocument = 64 << 20

// Error is a document that is no account of a run.
type Error struct {
	Name string // of the document
	Msg  string // what is wrong and what to do
}

func (e *Error) Error() string { return e.Name + ": " + e.Msg }

// Class returns "input".
func (e *Error) Class() string { return "input" }

//go:embed page.html.tmpl
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// Write reads the document of a run from r and writes the page to w. name is
// the document's, for messages. What is not the document of a run gives an
// *Error, and nothing is written.
func Write(w io.Writer, name string, r io.Reader) error {
	b, err := io.ReadAll(io.LimitReader(r, MaxDocument+1))
	if err != nil {
		return err
	}
	if len(b) > MaxDocument {
		return &Error{name, fmt.Sprintf("larger than %d bytes: not the document of a run", MaxDocument)}
	}
	p, err := decode(b)
	if err != nil {
		return &Error{name, err.Error()}
	}
	return pageTemplate.Execute(w, p)
}
