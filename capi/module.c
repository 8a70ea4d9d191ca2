//go:build goagnes_python

/*
 * The module _goagnes_data: the per-minibatch path. next() waits in slices
 * without the GIL, looks for signals between them, and returns Tensors.
 */
#include <Python.h>
#include <stdlib.h>

#include "counters.h"
#include "owner.h"
#include "tensor.h"

/* Longest wait between two looks at the pending signals. */
#define SLICE_MS 50

typedef struct {
    PyObject *tensor_type;
    PyObject *owner_type;
} state;

int goagnes_refuse_fork(void) {
    if (!goagnes_in_forked_child()) return 0;
    PyErr_SetString(PyExc_RuntimeError,
                    "goagnes cannot be used after os.fork(): its threads exist in the parent only. Start workers with "
                    "multiprocessing.get_context('spawn') and open the store there; with a torch DataLoader use "
                    "num_workers=0, the loader prepares minibatches in the background already");
    return 1;
}

static PyObject *int_tuple(const int64_t *values, int32_t n) {
    PyObject *tuple = PyTuple_New(n);
    for (int32_t i = 0; tuple != NULL && i < n; i++) {
        PyObject *value = PyLong_FromLongLong(values[i]);
        if (value == NULL || PyTuple_SetItem(tuple, i, value) < 0) Py_CLEAR(tuple);
    }
    return tuple;
}

/* Takes over the references in *batch, whatever happens. */
static PyObject *batch_object(state *s, const goagnes_batch *batch) {
    PyObject *arrays = PyDict_New();
    for (int32_t i = 0; i < batch->num_arrays; i++) {
        const goagnes_array *array = &batch->arrays[i];
        if (arrays == NULL) {
            goagnes_slab_release(batch->slab);
            continue;
        }
        PyObject *tensor = goagnes_tensor_new(s->tensor_type, batch->slab, array);
        if (tensor == NULL || PyDict_SetItemString(arrays, array->name, tensor) < 0) Py_CLEAR(arrays);
        Py_XDECREF(tensor);
    }
    if (arrays == NULL) return NULL;
    GOAGNES_COUNT(batches);
    PyObject *nodes = int_tuple(batch->sampled_nodes, batch->num_sampled_nodes);
    PyObject *edges = int_tuple(batch->sampled_edges, batch->num_sampled_edges);
    if (nodes == NULL || edges == NULL) {
        Py_XDECREF(nodes);
        Py_XDECREF(edges);
        Py_DECREF(arrays);
        return NULL;
    }
    return Py_BuildValue("(LLLLNNN)", (long long)batch->index, (long long)batch->batch_size,
                         (long long)batch->num_nodes, (long long)batch->num_edges, nodes, edges, arrays);
}

static PyObject *data_next(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 3) {
        PyErr_Format(PyExc_TypeError, "next() takes 3 arguments (loader, epoch, timeout_ms), not %zd", nargs);
        return NULL;
    }
    long long given[3];
    for (int i = 0; i < 3; i++) {
        given[i] = PyLong_AsLongLong(args[i]);
        if (given[i] == -1 && PyErr_Occurred()) return NULL;
    }
    if (goagnes_refuse_fork()) return NULL;
    long long left = given[2]; /* negative: no limit */
    goagnes_batch batch;
    for (;;) {
        long long slice = left < 0 || left > SLICE_MS ? SLICE_MS : left;
        int32_t result;
        Py_BEGIN_ALLOW_THREADS
        batch.error = NULL;
        result = goagnesNext(given[0], given[1], slice, &batch);
        Py_END_ALLOW_THREADS
        switch (result) {
        case GOAGNES_BATCH:
            return batch_object(PyModule_GetState(module), &batch);
        case GOAGNES_END:
            Py_RETURN_NONE;
        case GOAGNES_TIMEOUT:
            if (PyErr_CheckSignals() < 0) return NULL;
            if (left >= 0 && (left -= slice) <= 0) {
                PyErr_Format(PyExc_TimeoutError, "no minibatch within %lld ms", given[2]);
                return NULL;
            }
            break;
        default:
            PyErr_SetString(PyExc_RuntimeError, batch.error != NULL ? batch.error : "internal: no reason given");
            free(batch.error);
            return NULL;
        }
    }
}

static PyObject *data_counters(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return Py_BuildValue("{sLsLsLsLsLsL}", "batches", (long long)GOAGNES_READ(batches), "tensors_made",
                         (long long)GOAGNES_READ(tensors_made), "tensors_freed", (long long)GOAGNES_READ(tensors_freed),
                         "exports_made", (long long)GOAGNES_READ(exports_made), "exports_freed",
                         (long long)GOAGNES_READ(exports_freed), "slabs_unmapped",
                         (long long)GOAGNES_READ(slabs_unmapped));
}

static PyObject *data_forked(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyBool_FromLong(goagnes_in_forked_child());
}

static PyMethodDef functions[] = {
    {"next", (PyCFunction)(void (*)(void))data_next, METH_FASTCALL,
     "next(loader, epoch, timeout_ms, /)\n--\n\n"
     "The next minibatch of an epoch as (index, batch_size, num_nodes, num_edges, num_sampled_nodes,\n"
     "num_sampled_edges, {name: Tensor}), or None at its end. A negative timeout waits for ever."},
    {"counters", data_counters, METH_NOARGS, "counters()\n--\n\nWhat was handed out and given back, as a dict of ints."},
    {"forked", data_forked, METH_NOARGS, "forked()\n--\n\nWhether this process is a forked child, where nothing works."},
    {NULL, NULL, 0, NULL},
};

static int data_exec(PyObject *module) {
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
        PyErr_SetString(PyExc_ImportError, "goagnes works in the main interpreter only, not in a sub-interpreter");
        return -1;
    }
    if (goagnes_watch_fork() != 0) {
        PyErr_SetString(PyExc_ImportError, "goagnes: pthread_atfork failed");
        return -1;
    }
    state *s = PyModule_GetState(module);
    s->tensor_type = goagnes_tensor_type(module);
    if (s->tensor_type == NULL || PyModule_AddObjectRef(module, "Tensor", s->tensor_type) < 0) return -1;
    s->owner_type = goagnes_owner_type(module);
    if (s->owner_type == NULL || PyModule_AddObjectRef(module, "Owner", s->owner_type) < 0) return -1;
    return 0;
}

static int data_traverse(PyObject *module, visitproc visit, void *arg) {
    state *s = PyModule_GetState(module);
    Py_VISIT(s->tensor_type);
    Py_VISIT(s->owner_type);
    return 0;
}

static int data_clear(PyObject *module) {
    state *s = PyModule_GetState(module);
    Py_CLEAR(s->tensor_type);
    Py_CLEAR(s->owner_type);
    return 0;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, data_exec},
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_goagnes_data",
    .m_doc = "Minibatches of goagnes, without copies.",
    .m_size = sizeof(state),
    .m_methods = functions,
    .m_slots = module_slots,
    .m_traverse = data_traverse,
    .m_clear = data_clear,
};

__attribute__((visibility("default"))) PyMODINIT_FUNC PyInit__goagnes_data(void) { return PyModuleDef_Init(&definition); }
