//go:build goagnes_python

package capi

// #include <stdlib.h>
// #include <string.h>
// #include "goagnes.h"
import "C"

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/goagnes/goagnes/capi/control"
	"github.com/goagnes/goagnes/capi/engine"
)

//export goagnesNext
func goagnesNext(loader, epoch, timeoutMillis C.int64_t, out *C.goagnes_batch) C.int32_t {
	batch, err := engine.Plane().Next(int64(loader), int64(epoch), time.Duration(timeoutMillis)*time.Millisecond)
	if err == nil {
		err = fill(out, batch)
	}
	switch {
	case err == nil:
		return C.GOAGNES_BATCH
	case errors.Is(err, control.ErrTimeout):
		return C.GOAGNES_TIMEOUT
	case errors.Is(err, io.EOF):
		return C.GOAGNES_END
	}
	out.error = C.CString(control.Text(err))
	return C.GOAGNES_ERROR
}

//export goagnesLeave
func goagnesLeave(kind C.int32_t, handle, epoch C.int64_t) {
	// Nobody is there to be told of an error.
	switch plane := engine.Plane(); kind {
	case C.GOAGNES_STORE:
		_ = plane.CloseStore(int64(handle))
	case C.GOAGNES_LOADER:
		_ = plane.CloseLoader(int64(handle))
	case C.GOAGNES_EPOCH:
		_ = plane.Leave(int64(handle), int64(epoch))
	}
}

// fill describes a minibatch in C, with one reference to its slab for each array,
// and drops the minibatch's own.
func fill(out *C.goagnes_batch, batch *control.Batch) (err error) {
	defer control.Guard(&err)
	defer batch.Release()
	if len(batch.Arrays) > C.GOAGNES_MAX_ARRAYS || len(batch.SampledEdges) > C.GOAGNES_MAX_HOPS ||
		len(batch.SampledNodes) > C.GOAGNES_MAX_HOPS+1 {
		return fmt.Errorf("capi: a minibatch with %d arrays and %d hops; at most %d and %d can be handed over",
			len(batch.Arrays), len(batch.SampledEdges), C.GOAGNES_MAX_ARRAYS, C.GOAGNES_MAX_HOPS)
	}
	out.slab = batch.Slab
	out.index = C.int64_t(batch.Index)
	out.batch_size = C.int64_t(batch.BatchSize)
	out.num_nodes = C.int64_t(batch.NumNodes)
	out.num_edges = C.int64_t(batch.NumEdges)
	out.num_sampled_nodes = C.int32_t(len(batch.SampledNodes))
	for i, n := range batch.SampledNodes {
		out.sampled_nodes[i] = C.int64_t(n)
	}
	out.num_sampled_edges = C.int32_t(len(batch.SampledEdges))
	for i, n := range batch.SampledEdges {
		out.sampled_edges[i] = C.int64_t(n)
	}
	out.num_arrays = C.int32_t(len(batch.Arrays))
	for i := range batch.Arrays {
		if err := fillArray(&out.arrays[i], &batch.Arrays[i]); err != nil {
			return err
		}
	}
	atomic.AddInt32((*int32)(batch.Slab), int32(len(batch.Arrays)))
	return nil
}

func fillArray(out *C.goagnes_array, a *control.Array) error {
	if len(a.Name) >= C.GOAGNES_MAX_NAME || len(a.Shape) > C.GOAGNES_MAX_DIMS {
		return fmt.Errorf("capi: array %.100q has %d dimensions; names of at most %d bytes and %d dimensions can be handed over",
			a.Name, len(a.Shape), C.GOAGNES_MAX_NAME-1, C.GOAGNES_MAX_DIMS)
	}
	name := unsafe.Slice((*byte)(unsafe.Pointer(&out.name[0])), C.GOAGNES_MAX_NAME)
	name[copy(name, a.Name)] = 0
	out.data = a.Pointer
	out.dtype = C.int32_t(a.DType)
	out.ndim = C.int32_t(len(a.Shape))
	for i, n := range a.Shape {
		out.shape[i] = C.int64_t(n)
	}
	return nil
}
