// Package longrun holds tests only: training for many epochs holds a process's memory,
// open files, threads and goroutines.
package longrun
