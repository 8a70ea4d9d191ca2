// Package engine drives package goagnes for the control plane of the Python
// binding: it turns JSON requests into options and results into JSON.
//
// It provides the one Plane of the process. Requests are decoded strictly: an
// unknown field is an error. Arrays in a request are addresses of memory that
// Python keeps alive until the task has ended.
package engine

import (
	"github.com/goagnes/goagnes/capi/control"
)

var plane = control.New(nil)

// Plane returns the control plane of this process.
func Plane() *control.Plane { return plane }
