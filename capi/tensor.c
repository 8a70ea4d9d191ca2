//go:build goagnes_python

/*
 * Tensor: one array of a minibatch, living in a slab that it keeps alive.
 *
 * Views share the memory: the buffer protocol gives numpy a writable array,
 * DLPack serves consumers of the unversioned and of the 1.x form. A view holds
 * its own reference, so it outlives the Tensor, the loader and the store.
 * Deleters are plain C: any thread may run them, with or without the GIL.
 * Only calls of CPython's stable ABI (3.11).
 */
#include <Python.h>
#include <stdlib.h>
#include <string.h>

#include "counters.h"
#include "dlpack.h"
#include "tensor.h"

typedef struct {
    const char *name;   /* numpy's */
    const char *format; /* struct module's */
    uint8_t size;
    uint8_t code; /* DLPack's */
} element;

/* Indexed by layout.DType. bfloat16 has no buffer format: its bits are uint16. */
static const element elements[] = {
    [1] = {"float32", "f", 4, DLPACK_FLOAT},   [2] = {"float16", "e", 2, DLPACK_FLOAT},
    [3] = {"bfloat16", "H", 2, DLPACK_BFLOAT}, [4] = {"float64", "d", 8, DLPACK_FLOAT},
    [5] = {"int8", "b", 1, DLPACK_INT},        [6] = {"int16", "h", 2, DLPACK_INT},
    [7] = {"int32", "i", 4, DLPACK_INT},       [8] = {"int64", "l", 8, DLPACK_INT},
    [9] = {"uint8", "B", 1, DLPACK_UINT},      [10] = {"uint16", "H", 2, DLPACK_UINT},
    [11] = {"uint32", "I", 4, DLPACK_UINT},    [12] = {"uint64", "L", 8, DLPACK_UINT},
    [13] = {"bool", "?", 1, DLPACK_BOOL},
};
_Static_assert(sizeof(long) == 8, "the buffer format l is int64");

typedef struct {
    PyObject_HEAD
    void *slab;
    void *data;
    const element *element;
    int32_t ndim;
    Py_ssize_t nbytes;
    Py_ssize_t shape[GOAGNES_MAX_DIMS];
    Py_ssize_t strides[GOAGNES_MAX_DIMS]; /* in bytes */
} tensor;

PyObject *goagnes_tensor_new(PyObject *type, void *slab, const goagnes_array *array) {
    size_t kinds = sizeof elements / sizeof elements[0];
    if (array->dtype <= 0 || (size_t)array->dtype >= kinds || array->ndim < 0 || array->ndim > GOAGNES_MAX_DIMS) {
        goagnes_slab_release(slab);
        PyErr_Format(PyExc_RuntimeError, "internal: capi: array %s has dtype %d and %d dimensions", array->name,
                     (int)array->dtype, (int)array->ndim);
        return NULL;
    }
    tensor *t = PyObject_New(tensor, (PyTypeObject *)type);
    if (t == NULL) {
        goagnes_slab_release(slab);
        return NULL;
    }
    t->slab = slab;
    t->data = array->data;
    t->element = &elements[array->dtype];
    t->ndim = array->ndim;
    Py_ssize_t bytes = t->element->size;
    for (int i = t->ndim - 1; i >= 0; i--) {
        t->shape[i] = (Py_ssize_t)array->shape[i];
        t->strides[i] = bytes;
        bytes *= t->shape[i];
    }
    t->nbytes = bytes;
    GOAGNES_COUNT(tensors_made);
    return (PyObject *)t;
}

static void tensor_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    goagnes_slab_release(((tensor *)self)->slab);
    GOAGNES_COUNT(tensors_freed);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* ---- buffer protocol ---- */

static int tensor_getbuffer(PyObject *self, Py_buffer *view, int flags) {
    tensor *t = (tensor *)self;
    view->obj = NULL;
    if (t->ndim > 1 && (flags & PyBUF_F_CONTIGUOUS & ~PyBUF_STRIDES)) {
        PyErr_SetString(PyExc_BufferError, "a minibatch array is in C order, not Fortran order");
        return -1;
    }
    Py_INCREF(self);
    view->obj = self;
    view->buf = t->data;
    view->len = t->nbytes;
    view->readonly = 0;
    view->itemsize = t->element->size;
    view->format = (flags & PyBUF_FORMAT) ? (char *)t->element->format : NULL;
    view->ndim = t->ndim;
    view->shape = (flags & PyBUF_ND) ? t->shape : NULL;
    view->strides = ((flags & PyBUF_STRIDES) == PyBUF_STRIDES) ? t->strides : NULL;
    view->suboffsets = NULL;
    view->internal = NULL;
    return 0;
}

/* ---- DLPack ---- */

/*
 * What a consumer holds: the managed tensor, its shape, and one reference to
 * the slab (or, for copy=True, memory of its own).
 */
typedef struct {
    union {
        dlpack_managed plain;
        dlpack_managed_versioned versioned;
    } managed;
    void *slab;
    void *copy;
    int64_t dims[2 * GOAGNES_MAX_DIMS];
} export;

static void export_free(export *e) {
    if (e->slab != NULL) goagnes_slab_release(e->slab);
    free(e->copy);
    free(e);
    GOAGNES_COUNT(exports_freed);
}

static void plain_deleter(dlpack_managed *m) { export_free(m->manager_ctx); }

static void versioned_deleter(dlpack_managed_versioned *m) { export_free(m->manager_ctx); }

/* A consumed capsule is renamed; one that still has its name was never taken. */
static void capsule_free(PyObject *capsule) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        dlpack_managed *m = PyCapsule_GetPointer(capsule, "dltensor");
        m->deleter(m);
    } else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        dlpack_managed_versioned *m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        m->deleter(m);
    }
    PyErr_Restore(type, value, trace);
}

static PyObject *make_capsule(tensor *t, int versioned, int copy) {
    export *e = calloc(1, sizeof *e);
    if (e == NULL) return PyErr_NoMemory();
    void *data = t->data;
    if (copy) {
        e->copy = aligned_alloc(64, ((size_t)t->nbytes + 64) & ~(size_t)63);
        if (e->copy == NULL) {
            free(e);
            return PyErr_NoMemory();
        }
        memcpy(e->copy, t->data, (size_t)t->nbytes);
        data = e->copy;
    } else {
        e->slab = t->slab;
        __atomic_fetch_add(&((goagnes_slab *)t->slab)->refs, 1, __ATOMIC_ACQ_REL);
    }
    GOAGNES_COUNT(exports_made);
    for (int i = 0; i < t->ndim; i++) {
        e->dims[i] = t->shape[i];
        e->dims[GOAGNES_MAX_DIMS + i] = t->strides[i] / t->element->size;
    }
    dlpack_tensor described = {
        .data = data,
        .device = {DLPACK_CPU, 0},
        .ndim = t->ndim,
        .dtype = {t->element->code, (uint8_t)(8 * t->element->size), 1},
        .shape = e->dims,
        .strides = e->dims + GOAGNES_MAX_DIMS,
        .byte_offset = 0,
    };
    PyObject *capsule;
    if (versioned) {
        dlpack_managed_versioned *m = &e->managed.versioned;
        m->version = (dlpack_version){DLPACK_MAJOR, DLPACK_MINOR};
        m->manager_ctx = e;
        m->deleter = versioned_deleter;
        m->flags = copy ? DLPACK_FLAG_IS_COPIED : 0;
        m->tensor = described;
        capsule = PyCapsule_New(m, "dltensor_versioned", capsule_free);
    } else {
        dlpack_managed *m = &e->managed.plain;
        m->tensor = described;
        m->manager_ctx = e;
        m->deleter = plain_deleter;
        capsule = PyCapsule_New(m, "dltensor", capsule_free);
    }
    if (capsule == NULL) export_free(e);
    return capsule;
}

static PyObject *tensor_dlpack(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *max_version = Py_None, *device = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", names, &stream, &max_version, &device, &copy))
        return NULL;
    if (stream != Py_None) {
        PyErr_SetString(PyExc_BufferError, "__dlpack__: the array is in CPU memory; stream must be None");
        return NULL;
    }
    if (device != Py_None) {
        if (!PyTuple_Check(device) || PyTuple_Size(device) != 2) {
            PyErr_SetString(PyExc_TypeError, "__dlpack__: dl_device must be None or a pair of ints");
            return NULL;
        }
        long type = PyLong_AsLong(PyTuple_GetItem(device, 0));
        if (type == -1 && PyErr_Occurred()) return NULL;
        long id = PyLong_AsLong(PyTuple_GetItem(device, 1));
        if (id == -1 && PyErr_Occurred()) return NULL;
        if (type != DLPACK_CPU || id != 0) {
            PyErr_Format(PyExc_BufferError,
                         "__dlpack__: the array is on device (1, 0), the CPU; (%ld, %ld) is not served", type, id);
            return NULL;
        }
    }
    int versioned = 0;
    if (max_version != Py_None) {
        if (!PyTuple_Check(max_version) || PyTuple_Size(max_version) != 2) {
            PyErr_SetString(PyExc_TypeError, "__dlpack__: max_version must be None or a pair of ints");
            return NULL;
        }
        long major = PyLong_AsLong(PyTuple_GetItem(max_version, 0));
        if (major == -1 && PyErr_Occurred()) return NULL;
        versioned = major >= DLPACK_MAJOR;
    }
    int copies = PyObject_IsTrue(copy); /* None and False share, True copies */
    if (copies < 0) return NULL;
    return make_capsule((tensor *)self, versioned, copies);
}

static PyObject *tensor_dlpack_device(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    return Py_BuildValue("(ii)", DLPACK_CPU, 0);
}

/* ---- attributes ---- */

static PyObject *get_shape(PyObject *self, void *unused) {
    (void)unused;
    tensor *t = (tensor *)self;
    PyObject *shape = PyTuple_New(t->ndim);
    for (int i = 0; shape != NULL && i < t->ndim; i++) {
        PyObject *n = PyLong_FromSsize_t(t->shape[i]);
        if (n == NULL || PyTuple_SetItem(shape, i, n) < 0) Py_CLEAR(shape);
    }
    return shape;
}

static PyObject *get_dtype(PyObject *self, void *unused) {
    (void)unused;
    return PyUnicode_FromString(((tensor *)self)->element->name);
}

static PyObject *get_nbytes(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromSsize_t(((tensor *)self)->nbytes);
}

static PyObject *get_address(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromVoidPtr(((tensor *)self)->data);
}

static PyObject *tensor_repr(PyObject *self) {
    PyObject *shape = get_shape(self, NULL);
    if (shape == NULL) return NULL;
    PyObject *text = PyUnicode_FromFormat("<goagnes Tensor %s %R>", ((tensor *)self)->element->name, shape);
    Py_DECREF(shape);
    return text;
}

static PyObject *tensor_reduce(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    PyErr_SetString(PyExc_TypeError,
                    "a goagnes Tensor cannot be pickled: it is a view of the loader's memory; pickle numpy.array(tensor)");
    return NULL;
}

static PyMethodDef methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))tensor_dlpack, METH_VARARGS | METH_KEYWORDS,
     "__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
     "A DLPack capsule sharing this memory: versioned where max_version >= (1, 0)."},
    {"__dlpack_device__", tensor_dlpack_device, METH_NOARGS, "The pair (1, 0): CPU memory."},
    {"__reduce__", tensor_reduce, METH_NOARGS, "Refuses: views are not pickled."},
    {"__reduce_ex__", tensor_reduce, METH_O, "Refuses: views are not pickled."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef attributes[] = {
    {"shape", get_shape, NULL, "Lengths of the dimensions.", NULL},
    {"dtype", get_dtype, NULL, "numpy's name of the element type; bfloat16 besides.", NULL},
    {"nbytes", get_nbytes, NULL, "Bytes of all elements.", NULL},
    {"address", get_address, NULL, "Address of the first element.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "One array of a minibatch, in the loader's memory. Views of it share and keep that memory."},
    {Py_tp_dealloc, tensor_dealloc},
    {Py_tp_repr, tensor_repr},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {Py_bf_getbuffer, tensor_getbuffer},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "goagnes._goagnes_data.Tensor",
    .basicsize = sizeof(tensor),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

PyObject *goagnes_tensor_type(PyObject *module) { return PyType_FromModuleAndSpec(module, &spec, NULL); }
