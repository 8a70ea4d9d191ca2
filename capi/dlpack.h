/*
 * The DLPack exchange structures (https://dmlc.github.io/dlpack), version 1.0
 * and the unversioned form before it. Only what tensor.c produces.
 */
#ifndef GOAGNES_DLPACK_H
#define GOAGNES_DLPACK_H

#include <stdint.h>

#define DLPACK_MAJOR 1
#define DLPACK_MINOR 0
#define DLPACK_FLAG_IS_COPIED 2u

enum { DLPACK_CPU = 1 };
enum { DLPACK_INT = 0, DLPACK_UINT = 1, DLPACK_FLOAT = 2, DLPACK_BFLOAT = 4, DLPACK_BOOL = 6 };

typedef struct {
    int32_t device_type;
    int32_t device_id;
} dlpack_device;

typedef struct {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
} dlpack_dtype;

typedef struct {
    void *data;
    dlpack_device device;
    int32_t ndim;
    dlpack_dtype dtype;
    int64_t *shape;
    int64_t *strides; /* in elements */
    uint64_t byte_offset;
} dlpack_tensor;

typedef struct dlpack_managed {
    dlpack_tensor tensor;
    void *manager_ctx;
    void (*deleter)(struct dlpack_managed *self);
} dlpack_managed;

typedef struct {
    uint32_t major;
    uint32_t minor;
} dlpack_version;

typedef struct dlpack_managed_versioned {
    dlpack_version version;
    void *manager_ctx;
    void (*deleter)(struct dlpack_managed_versioned *self);
    uint64_t flags;
    dlpack_tensor tensor;
} dlpack_managed_versioned;

_Static_assert(sizeof(dlpack_tensor) == 48, "DLTensor is 48 bytes");
_Static_assert(sizeof(dlpack_managed) == 64, "DLManagedTensor is 64 bytes");
_Static_assert(sizeof(dlpack_managed_versioned) == 80, "DLManagedTensorVersioned is 80 bytes");

#endif
