/* The Python type that owns a handle. Include after Python.h. */
#ifndef GOAGNES_OWNER_H
#define GOAGNES_OWNER_H

#include "goagnes.h"

/* Creates the heap type; NULL with an exception set on failure. */
PyObject *goagnes_owner_type(PyObject *module);

#endif
