// Package faults holds tests only: errors of devices, full disks, signals and losses of
// power, under a build, an export and an open store. What can be opened afterwards is
// whole, the error has a type and names the place, and nothing is left over unnamed.
package faults
