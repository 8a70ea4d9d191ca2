//go:build goagnes_testing

package engine

import (
	"github.com/goagnes/goagnes/capi/control"
	"github.com/goagnes/goagnes/capi/control/controltest"
)

// A library for tests serves the synthetic engine.
func init() { plane = control.New(controltest.Engine{}) }
