/*
 * Random use of the C data plane: the module _goagnes_data in an interpreter of
 * its own, over an engine that is a random number generator. Built with the
 * address and undefined-behaviour sanitizers by driver_test.go.
 *
 *   driver SEED ROUNDS
 *
 * Every round calls an entry point with random arguments, or uses what earlier
 * rounds left: tensors, buffers, capsules, owners. Arrays end where their slab does, before
 * a page that must not be touched. In the end everything is dropped, and what was
 * handed out must have come back. Prints what was done.
 */
#define _GNU_SOURCE
#include <Python.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../../counters.h"
#include "../../dlpack.h"
#include "../../goagnes.h"

PyMODINIT_FUNC PyInit__goagnes_data(void);

/* ---- random numbers: splitmix64 ---- */

static uint64_t state;

static uint64_t draw(void) {
    uint64_t z = (state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static int64_t below(int64_t n) { return (int64_t)(draw() % (uint64_t)n); }

static void die(const char *what) {
    fprintf(stderr, "driver: %s\n", what);
    if (PyErr_Occurred()) PyErr_Print();
    exit(1);
}

/* ---- the engine ---- */

#define MAX_SLABS 100000
static goagnes_slab *slabs[MAX_SLABS];
static int num_slabs;
static int32_t wake;
static long results[5];

/* Ends of arrays that fit into bytes: random lengths, their product bounded. */
static int64_t random_shape(goagnes_array *array, int64_t elements) {
    int64_t n = 1;
    for (int i = 0; i < GOAGNES_MAX_DIMS; i++) {
        array->shape[i] = 1 + below(4);
        if (below(20) == 0) array->shape[i] = 0;
        if (i < array->ndim) {
            if (n * array->shape[i] > elements) array->shape[i] = 1;
            n *= array->shape[i];
        }
    }
    return n;
}

static const int sizes[] = {0, 4, 2, 2, 8, 1, 2, 4, 8, 1, 2, 4, 8, 1};

static void random_batch(goagnes_batch *out) {
    int64_t page = 4096, length = page * (1 + below(3));
    char *base = mmap(NULL, (size_t)(length + page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED || num_slabs == MAX_SLABS) die("no memory for a slab");
    mprotect(base + length, (size_t)page, PROT_NONE);
    goagnes_slab *slab = (goagnes_slab *)base;
    slabs[num_slabs++] = slab;
    slab->length = (uint64_t)(length + page);
    slab->wake = below(10) == 0 ? 0 : (uint64_t)(uintptr_t)&wake;
    memset(out, 0xA5, sizeof *out);
    out->slab = slab;
    out->error = NULL;
    out->num_arrays = (int32_t)below(5);
    if (below(50) == 0) out->num_arrays = GOAGNES_MAX_ARRAYS;
    out->num_sampled_nodes = (int32_t)below(GOAGNES_MAX_HOPS + 2);
    out->num_sampled_edges = (int32_t)below(GOAGNES_MAX_HOPS + 1);
    slab->refs = 1 + out->num_arrays; /* the pool's and one for each array */
    for (int i = 0; i < out->num_arrays; i++) {
        goagnes_array *array = &out->arrays[i];
        snprintf(array->name, sizeof array->name, "a%d", (int)below(8)); /* names may be equal */
        if (below(20) == 0) memset(array->name, 'x', sizeof array->name - 1), array->name[sizeof array->name - 1] = 0;
        array->dtype = (int32_t)(below(10) == 0 ? below(1000) - 500 : 1 + below(13));
        array->ndim = (int32_t)(below(20) == 0 ? below(40) - 20 : below(GOAGNES_MAX_DIMS + 1));
        int valid = array->dtype >= 1 && array->dtype <= 13 && array->ndim >= 0 && array->ndim <= GOAGNES_MAX_DIMS;
        int64_t size = valid ? sizes[array->dtype] : 8;
        int64_t n = random_shape(array, (length - 64) / size);
        array->data = base + length - (valid ? n * size : 8);
    }
}

int32_t goagnesNext(int64_t loader, int64_t epoch, int64_t timeout_ms, goagnes_batch *out) {
    static const char *errors[] = {"", "store: a page differs", "\xff\xfe no UTF-8", "%s%n%d"};
    (void)loader, (void)epoch;
    int64_t what = below(10);
    int32_t result = GOAGNES_BATCH;
    if (what == 0) {
        result = GOAGNES_ERROR;
        if (below(4) != 0) out->error = strdup(errors[below(4)]);
    } else if (what == 1) {
        result = GOAGNES_END;
    } else if (what == 2) {
        result = GOAGNES_TIMEOUT;
        if (timeout_ms < 0) die("a wait without limit was passed on whole");
    } else if (what == 3 && below(4) == 0) {
        return 4 + (int32_t)below(100); /* no result that there is */
    } else {
        random_batch(out);
    }
    results[result]++;
    return result;
}

#define OWNED (1 << 20)
static char left[OWNED]; /* handles that were closed, by number */
static long owners, closed;

void goagnesLeave(int32_t kind, int64_t handle, int64_t epoch) {
    if (kind < GOAGNES_STORE || kind > GOAGNES_EPOCH) die("nothing of that kind is owned");
    if (handle < 0 || handle >= OWNED || epoch != handle + 1) return; /* an argument of chance */
    if (left[handle]++) die("a handle is closed twice by its owner");
    closed++;
}

/* ---- random arguments ---- */

#define BAG 64
static PyObject *bag[BAG]; /* tensors, views, capsules, batches */
static PyObject *module;
static long raised, calls;

static PyObject *random_object(int depth) {
    switch (below(depth > 2 ? 12 : 14)) {
    case 0: return Py_NewRef(Py_None);
    case 1: return PyBool_FromLong(below(2));
    case 2: return PyLong_FromLongLong(below(5) - 2);
    case 3: return PyLong_FromLongLong((int64_t)draw());
    case 4: return PyLong_FromString("1180591620717411303424", NULL, 10); /* 2^70 */
    case 5: return PyLong_FromString("-1180591620717411303424", NULL, 10);
    case 6: return PyFloat_FromDouble((double)below(100) / 3);
    case 7: return PyUnicode_FromString("text");
    case 8: return PyBytes_FromStringAndSize("\0bytes", 6);
    case 9: return PyDict_New();
    case 10: return Py_NewRef(module);
    case 11: {
        PyObject *held = bag[below(BAG)];
        return Py_NewRef(held != NULL ? held : Py_None);
    }
    default: {
        PyObject *tuple = PyTuple_New(below(4));
        for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); i++) PyTuple_SetItem(tuple, i, random_object(depth + 1));
        return tuple;
    }
    }
}

/* An argument of that kind half of the time. */
static PyObject *argument(PyObject *due) {
    if (below(2) == 0) return due;
    Py_DECREF(due);
    return random_object(0);
}

static void keep(PyObject *value) {
    calls++;
    if (value == NULL) {
        if (!PyErr_Occurred()) die("NULL without an exception");
        PyErr_Clear();
        raised++;
        return;
    }
    if (PyErr_Occurred()) die("a value and an exception");
    PyObject **place = &bag[below(BAG)];
    PyObject *before = *place;
    *place = value;
    Py_XDECREF(before);
}

/* ---- consumers ---- */

static void *delete_plain(void *m) {
    ((dlpack_managed *)m)->deleter(m);
    return NULL;
}

static void *delete_versioned(void *m) {
    ((dlpack_managed_versioned *)m)->deleter(m);
    return NULL;
}

/* What a consumer reads: every element, by shape and strides. */
static uint64_t sum;

static void read_tensor(const dlpack_tensor *t) {
    int64_t n = 1;
    for (int i = t->ndim - 1; i >= 0; i--) {
        if (n > 0 && t->shape[i] > 1 && t->strides[i] != n) die("strides that are not those of C order");
        n *= t->shape[i];
    }
    if (t->device.device_type != DLPACK_CPU || t->dtype.lanes != 1 || t->byte_offset != 0) die("an odd tensor");
    for (int64_t i = 0; i < n * t->dtype.bits / 8; i++) sum += ((const unsigned char *)t->data)[i];
}

/* Takes a capsule as a consumer does, and gives it back from a thread without the GIL. */
static void consume(PyObject *capsule) {
    int versioned = PyCapsule_IsValid(capsule, "dltensor_versioned");
    if (!versioned && !PyCapsule_IsValid(capsule, "dltensor")) return;
    void *m = PyCapsule_GetPointer(capsule, versioned ? "dltensor_versioned" : "dltensor");
    read_tensor(versioned ? &((dlpack_managed_versioned *)m)->tensor : &((dlpack_managed *)m)->tensor);
    PyCapsule_SetName(capsule, versioned ? "used_dltensor_versioned" : "used_dltensor");
    pthread_t thread;
    Py_BEGIN_ALLOW_THREADS
    if (pthread_create(&thread, NULL, versioned ? delete_versioned : delete_plain, m) != 0) die("no thread");
    pthread_join(thread, NULL);
    Py_END_ALLOW_THREADS
}

static void random_buffer(PyObject *value) {
    Py_buffer view;
    calls++;
    if (PyObject_GetBuffer(value, &view, (int)(draw() & (below(2) ? 0x1ff : 0xffff))) < 0) {
        PyErr_Clear();
        raised++;
        return;
    }
    for (Py_ssize_t i = 0; i < view.len; i++) sum += ((unsigned char *)view.buf)[i];
    if (!view.readonly) memset(view.buf, 1, (size_t)view.len);
    if (below(2)) keep(PyMemoryView_FromObject(value));
    PyBuffer_Release(&view);
}

static void use(PyObject *value) {
    static const char *names[] = {"shape", "dtype", "nbytes", "address", "__dlpack_device__", "__reduce__", "__reduce_ex__", "none", "__class__", "alive", "close", "detach"};
    switch (below(8)) {
    case 0: keep(PyObject_GetAttrString(value, names[below(12)])); return;
    case 1: keep(PyObject_Repr(value)); return;
    case 2: case 3: random_buffer(value); return;
    case 4: keep(PyObject_CallMethod(value, names[below(2) ? 10 + below(2) : 4 + below(3)], below(2) ? NULL : "i", (int)below(5))); return;
    case 5:
        if (PyCapsule_CheckExact(value)) consume(value);
        return;
    default: {
        static const char *keywords[] = {"stream", "max_version", "dl_device", "copy", "other"};
        PyObject *method = PyObject_GetAttrString(value, "__dlpack__");
        if (method == NULL) {
            PyErr_Clear();
            return;
        }
        PyObject *args = PyTuple_New(below(12) == 0), *kwargs = PyDict_New();
        if (PyTuple_Size(args) > 0) PyTuple_SetItem(args, 0, random_object(0));
        for (int64_t i = below(4); i > 0; i--) {
            int64_t k = below(below(10) == 0 ? 5 : 4);
            PyObject *due = k == 1 ? Py_BuildValue("(ii)", (int)below(3), (int)below(3)) : k == 2 ? Py_BuildValue("(ii)", (int)below(3), 0) : Py_NewRef(k == 3 && below(2) ? Py_True : Py_None);
            PyObject *v = argument(due);
            PyDict_SetItemString(kwargs, keywords[k], v);
            Py_DECREF(v);
        }
        keep(PyObject_Call(method, args, kwargs));
        Py_DECREF(args);
        Py_DECREF(kwargs);
        Py_DECREF(method);
    }
    }
}

static void round_of(void) {
    PyObject *value = bag[below(BAG)];
    switch (below(7)) {
    case 6: { /* an owner, which may keep another, or itself in a list */
        static const char *kinds[] = {"store", "loader", "epoch", "loaders", ""};
        PyObject *type = PyObject_GetAttrString(module, "Owner"), *list = PyList_New(0);
        if (value != NULL) PyList_Append(list, value);
        long handle = owners++;
        if (handle == OWNED) die("more owners than are counted");
        PyObject *args = Py_BuildValue("(sLLO)", kinds[below(below(8) == 0 ? 5 : 3)], (long long)handle, (long long)handle + 1, list);
        if (below(10) == 0) PyTuple_SetItem(args, below(4), random_object(0));
        PyObject *made = PyObject_Call(type, args, NULL);
        if (made != NULL && below(2)) PyList_Append(list, made);
        Py_DECREF(args);
        Py_DECREF(list);
        Py_DECREF(type);
        keep(made);
        return;
    }
    case 0: case 1: { /* a minibatch, its arrays into the bag */
        PyObject *next = PyObject_GetAttrString(module, "next"), *args = PyTuple_New(below(15) == 0 ? below(6) : 3);
        for (Py_ssize_t i = 0; i < PyTuple_Size(args); i++) PyTuple_SetItem(args, i, below(12) == 0 ? random_object(0) : PyLong_FromLongLong(below(200) - (i == 2 ? 20 : 0)));
        PyObject *batch = PyObject_Call(next, args, NULL);
        Py_DECREF(args);
        Py_DECREF(next);
        if (batch != NULL && PyTuple_Check(batch)) {
            PyObject *values = PyDict_Values(PyTuple_GetItem(batch, 6));
            for (Py_ssize_t i = 0; i < PyList_Size(values); i++) keep(Py_NewRef(PyList_GetItem(values, i)));
            Py_DECREF(values);
        }
        keep(batch);
        return;
    }
    case 2: {
        static const char *names[] = {"counters", "forked", "Tensor"};
        keep(PyObject_CallMethod(module, names[below(3)], below(3) ? NULL : "i", 1));
        return;
    }
    default:
        if (value != NULL) {
            Py_INCREF(value);
            use(value);
            Py_DECREF(value);
        }
    }
}

int main(int argc, char **argv) {
    if (argc != 3) die("driver SEED ROUNDS");
    state = strtoull(argv[1], NULL, 10);
    long rounds = strtol(argv[2], NULL, 10);
    PyImport_AppendInittab("_goagnes_data", PyInit__goagnes_data);
    Py_Initialize();
    module = PyImport_ImportModule("_goagnes_data");
    if (module == NULL) die("the module cannot be imported");
    for (long i = 0; i < rounds; i++) {
        round_of();
        if (PyErr_Occurred()) die("an exception was left over");
    }
    for (int i = 0; i < BAG; i++) Py_CLEAR(bag[i]);
    PyGC_Collect();
    if (rounds >= 1000 && closed == 0) die("no owner has closed anything");
    if (GOAGNES_READ(tensors_made) != GOAGNES_READ(tensors_freed)) die("tensors were not given back");
    if (GOAGNES_READ(exports_made) != GOAGNES_READ(exports_freed)) die("exports were not given back");
    for (int i = 0; i < num_slabs; i++) {
        if (slabs[i]->refs != 1) die("a slab has other references than the pool's");
        goagnes_slab_release(slabs[i]);
    }
    if (GOAGNES_READ(slabs_unmapped) != num_slabs) die("slabs were not unmapped");
    printf("%ld calls, %ld refused, %ld minibatches, %ld errors, %ld timeouts, %lld tensors, %lld exports\n", calls, raised, results[GOAGNES_BATCH],
           results[GOAGNES_ERROR], results[GOAGNES_TIMEOUT], (long long)GOAGNES_READ(tensors_made), (long long)GOAGNES_READ(exports_made));
    Py_CLEAR(module);
    return Py_FinalizeEx() < 0;
}
