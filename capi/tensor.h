/* The Python type of one delivered array. Include after Python.h. */
#ifndef GOAGNES_TENSOR_H
#define GOAGNES_TENSOR_H

#include "goagnes.h"

/* Creates the heap type; NULL with an exception set on failure. */
PyObject *goagnes_tensor_type(PyObject *module);

/*
 * Makes a Tensor over one array. It takes over one reference to slab, and
 * drops it itself when it fails.
 */
PyObject *goagnes_tensor_new(PyObject *type, void *slab, const goagnes_array *array);

#endif
