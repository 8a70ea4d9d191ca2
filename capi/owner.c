//go:build goagnes_python

/*
 * Owner: closes a store, a loader or an epoch when it is collected, and keeps what
 * a loader reads from until then.
 *
 * A weakref callback or __del__ would do so in Python, where Ctrl-C may arrive:
 * Python prints the KeyboardInterrupt of a finalizer and goes on as if nobody had
 * asked. No step here looks for signals, so that one which comes meanwhile stays
 * pending until the interpreter is back in the program that it is meant for.
 * Only calls of CPython's stable ABI (3.11).
 */
#include <Python.h>
#include <string.h>

#include "owner.h"

typedef struct {
    PyObject_HEAD
    int64_t handle;
    int64_t epoch;
    PyObject *keep;
    int32_t kind;
    int32_t alive;
} owner;

static const char *const kinds[] = {[GOAGNES_STORE] = "store", [GOAGNES_LOADER] = "loader", [GOAGNES_EPOCH] = "epoch"};

static PyObject *owner_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    const char *kind;
    long long handle, epoch = 0;
    PyObject *keep = Py_None;
    if (named != NULL && PyDict_Size(named) != 0) {
        PyErr_SetString(PyExc_TypeError, "Owner() takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "sL|LO:Owner", &kind, &handle, &epoch, &keep)) return NULL;
    int32_t at = 0, count = (int32_t)(sizeof kinds / sizeof kinds[0]);
    while (at < count && strcmp(kinds[at], kind) != 0) at++;
    if (at == count) {
        PyErr_Format(PyExc_ValueError, "an Owner of a %.100s; it owns a store, a loader or an epoch", kind);
        return NULL;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    owner *o = (owner *)allocate(type, 0);
    if (o == NULL) return NULL;
    o->handle = handle;
    o->epoch = epoch;
    o->kind = at;
    o->alive = 1;
    Py_INCREF(keep);
    o->keep = keep;
    return (PyObject *)o;
}

/* Closes what is owned, unless this is a forked child, and lets go of what it read from. */
static void owner_end(owner *o) {
    if (o->alive) {
        o->alive = 0;
        if (!goagnes_in_forked_child()) {
            int32_t kind = o->kind;
            int64_t handle = o->handle, epoch = o->epoch;
            Py_BEGIN_ALLOW_THREADS
            goagnesLeave(kind, handle, epoch);
            Py_END_ALLOW_THREADS
        }
    }
    Py_CLEAR(o->keep);
}

static int owner_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((owner *)self)->keep);
    return 0;
}

static int owner_clear(PyObject *self) {
    owner_end((owner *)self);
    return 0;
}

static void owner_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    owner_end((owner *)self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyObject *owner_close(PyObject *self, PyObject *unused) {
    (void)unused;
    Py_INCREF(self); /* the last reference may go while the GIL is released */
    owner_end((owner *)self);
    Py_DECREF(self);
    Py_RETURN_NONE;
}

static PyObject *owner_detach(PyObject *self, PyObject *unused) {
    (void)unused;
    owner *o = (owner *)self;
    o->alive = 0;
    Py_CLEAR(o->keep);
    Py_RETURN_NONE;
}

static PyObject *get_alive(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(((owner *)self)->alive);
}

static PyMethodDef methods[] = {
    {"close", owner_close, METH_NOARGS, "close()\n--\n\nCloses it now. No error is raised, nor Ctrl-C within it."},
    {"detach", owner_detach, METH_NOARGS, "detach()\n--\n\nForgets it: it is closed, or over."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef attributes[] = {
    {"alive", get_alive, NULL, "Whether it is neither closed nor forgotten.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Owner(kind, handle, epoch=0, keep=None, /)\n--\n\n"
                "Closes a store, a loader or an epoch when it is collected; keep lives until then."},
    {Py_tp_new, owner_new},
    {Py_tp_dealloc, owner_dealloc},
    {Py_tp_traverse, owner_traverse},
    {Py_tp_clear, owner_clear},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "goagnes._goagnes_data.Owner",
    .basicsize = sizeof(owner),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

PyObject *goagnes_owner_type(PyObject *module) { return PyType_FromModuleAndSpec(module, &spec, NULL); }
