/* A stand-in for the NVIDIA driver's management library: what nvidia-ml-py calls, answered for a node of GPUs with the
 * defects that the file $STANDIN_NVML names, a line each: "name value" for all devices, "DEVICE.name value" for one.
 * $STANDIN_NVML_ASKED gets a line from each process that asks it.
 * The signatures and numbers are those of nvml.h. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, TOO_SMALL = 7, NO_LIBRARY = 12, NO_FUNCTION = 13, LOST = 15, RESET = 16 };
typedef int Status;
typedef struct { int index; } *Device;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; } Process;
typedef struct { unsigned version; uint8_t cluster[16]; Status status; uint32_t clique; uint8_t state; uint32_t health; } Fabric;
typedef struct { uint32_t field, scope; int64_t timestamp, latency; int type; Status status; unsigned long long value; } Field;

static struct { int index; } devices[64];

/* The value of a name, for one device (-1: none of them); the last line that fits counts. */
static long long get(int device, const char *name, long long otherwise) {
    char line[256], own[64];
    const char *path = getenv("STANDIN_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    snprintf(own, sizeof own, "%d.%s", device, name);
    while (file && fgets(line, sizeof line, file)) {
        char *value = strchr(line, ' ');
        if (!value) continue;
        *value = 0;
        if (!strcmp(line, name) || !strcmp(line, own)) otherwise = strtoll(value + 1, NULL, 0);
    }
    if (file) fclose(file);
    return otherwise;
}
static long long of(Device device, const char *name, long long otherwise) { return get(device->index, name, otherwise); }
static Status put(Device device, const char *name, long long otherwise, unsigned *value) {
    long long found = of(device, name, otherwise);
    if (of(device, "lost", 0)) return LOST;
    if (found < 0) return NOT_SUPPORTED;
    *value = (unsigned)found;
    return OK;
}

Status nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    FILE *log = getenv("STANDIN_NVML_ASKED") ? fopen(getenv("STANDIN_NVML_ASKED"), "a") : NULL;
    if (log) { fprintf(log, "%d\n", getpid()); fclose(log); }
    if (get(-1, "hang", 0)) sleep(60);
    if (get(-1, "crash", 0)) abort();
    return (Status)get(-1, "init", OK);
}
const char *nvmlErrorString(Status status) {
    switch (status) {
    case 9: return "Driver Not Loaded";
    case 15: return "GPU is lost";
    case 16: return "GPU requires reset";
    case 18: return "Driver/library version mismatch";
    default: return "Unknown Error";
    }
}
Status nvmlSystemGetDriverVersion(char *text, unsigned size) { snprintf(text, size, "550.54.15"); return OK; }
Status nvmlSystemGetCudaDriverVersion_v2(int *version) {
    *version = (int)get(-1, "cuda", 12040);
    return *version ? OK : NO_LIBRARY;
}
Status nvmlDeviceGetCount_v2(unsigned *count) { *count = (unsigned)get(-1, "count", 8); return OK; }
Status nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *device) {
    if (index >= 64) return INVALID;
    devices[index].index = (int)index;
    *device = (Device)&devices[index];
    return (Status)of(*device, "unreachable", OK);
}
Status nvmlDeviceGetName(Device d, char *text, unsigned size) {
    if (of(d, "stuck", 0)) raise(SIGALRM); /* as where no answer came in time */
    snprintf(text, size, of(d, "model", 0) ? "NVIDIA A100-SXM4-80GB" : "NVIDIA H100 80GB HBM3");
    return OK;
}
Status nvmlDeviceGetUUID(Device d, char *text, unsigned size) {
    snprintf(text, size, "GPU-00000000-0000-0000-0000-%012d", d->index);
    return OK;
}
Status nvmlDeviceGetPciInfo_v3(Device d, Pci *pci) {
    memset(pci, 0, sizeof *pci);
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", 0x10 + d->index);
    return OK;
}
Status nvmlDeviceGetMemoryInfo(Device d, Memory *memory) {
    if (of(d, "lost", 0)) return LOST;
    if (of(d, "reset", 0)) return RESET;
    memory->total = (unsigned long long)of(d, "memory", 81559LL << 20);
    memory->used = (unsigned long long)of(d, "used", 1LL << 20);
    memory->free = memory->total - memory->used;
    return OK;
}
static Status running(Device d, unsigned *count, Process *found) {
    long long pid = of(d, "pid", 0);
    if (!pid) { *count = 0; return OK; }
    if (!found) { *count = 1; return TOO_SMALL; }
    memset(found, 0, sizeof *found);
    found->pid = (unsigned)pid;
    found->memory = (unsigned long long)of(d, "used", 0);
    *count = 1;
    return OK;
}
Status nvmlDeviceGetComputeRunningProcesses_v2(Device d, unsigned *n, Process *found) { return running(d, n, found); }
Status nvmlDeviceGetComputeRunningProcesses_v3(Device d, unsigned *n, Process *found) {
    return get(-1, "old", 0) ? NO_FUNCTION : running(d, n, found);
}
Status nvmlDeviceGetGraphicsRunningProcesses_v2(Device d, unsigned *count, Process *found) {
    unsigned long long drawn = (unsigned long long)of(d, "drawn", 0);
    if (!drawn) { *count = 0; return OK; }
    if (!found) { *count = 1; return TOO_SMALL; }
    memset(found, 0, sizeof *found);
    found->pid = 1;
    found->memory = drawn;
    *count = 1;
    return OK;
}
Status nvmlDeviceGetPersistenceMode(Device d, unsigned *mode) { return put(d, "persistence", 1, mode); }
Status nvmlDeviceGetEnforcedPowerLimit(Device d, unsigned *milliwatts) { return put(d, "power", 700000, milliwatts); }
Status nvmlDeviceGetComputeMode(Device d, unsigned *mode) { return put(d, "compute_mode", 0, mode); }
Status nvmlDeviceGetMigMode(Device d, unsigned *now, unsigned *pending) { *pending = 0; return put(d, "mig", 0, now); }
Status nvmlDeviceGetEccMode(Device d, unsigned *now, unsigned *pending) { *pending = 1; return put(d, "ecc", 1, now); }
Status nvmlDeviceGetTotalEccErrors(Device d, unsigned kind, unsigned since, unsigned long long *count) {
    *count = kind == 1 && since == 0 ? (unsigned long long)of(d, "ecc_errors", 0) : 0;
    return OK;
}
Status nvmlDeviceGetRetiredPagesPendingStatus(Device d, unsigned *pending) { return put(d, "retired", -1, pending); }
Status nvmlDeviceGetSramEccErrorStatus(Device d, struct { unsigned version; unsigned long long n[11]; unsigned worn; } *s) {
    return put(d, "sram_worn", 0, &s->worn);
}
Status nvmlDeviceGetRemappedRows(Device d, unsigned *c, unsigned *u, unsigned *pending, unsigned *failed) {
    *c = *u = 0;
    put(d, "remap_failed", 0, failed);
    return put(d, "remap_pending", 0, pending);
}
Status nvmlDeviceGetCurrentClocksThrottleReasons(Device d, unsigned long long *reasons) {
    *reasons = (unsigned long long)of(d, "slowed", 1); /* idle */
    return OK;
}
Status nvmlDeviceGetCurrPcieLinkWidth(Device d, unsigned *width) { return put(d, "width", 16, width); }
Status nvmlDeviceGetMaxPcieLinkWidth(Device d, unsigned *width) { return put(d, "width_max", 16, width); }
Status nvmlDeviceGetCurrPcieLinkGeneration(Device d, unsigned *found) { return put(d, "generation", 5, found); }
Status nvmlDeviceGetMaxPcieLinkGeneration(Device d, unsigned *found) { return put(d, "generation_max", 5, found); }
Status nvmlDeviceGetPerformanceState(Device d, int *state) { return put(d, "performance", 0, (unsigned *)state); }
Status nvmlDeviceGetNvLinkErrorCounter(Device d, unsigned link, int counter, unsigned long long *count) {
    if (link >= (unsigned)of(d, "links", 18)) return INVALID;
    *count = counter == 1 && link == 4 ? (unsigned long long)of(d, "recoveries", 0) : 0;
    return OK;
}
Status nvmlDeviceGetNvLinkState(Device d, unsigned link, unsigned *active) {
    if (link >= (unsigned)of(d, "links", 18)) return INVALID;
    *active = link >= (unsigned)of(d, "links_down", 0);
    return OK;
}
Status nvmlDeviceGetGpuFabricInfoV(Device d, Fabric *fabric) {
    fabric->state = (uint8_t)of(d, "fabric", 3);
    fabric->status = (Status)of(d, "fabric_status", OK);
    if (of(d, "cluster", 0)) memset(fabric->cluster, (int)of(d, "cluster", 0), sizeof fabric->cluster);
    fabric->health = (uint32_t)of(d, "fabric_health", 0x2a);
    return OK;
}
Status nvmlDeviceGetCudaComputeCapability(Device d, int *major, int *minor) {
    *major = (int)of(d, "major", 9);
    *minor = (int)of(d, "minor", 0);
    return OK;
}
Status nvmlDeviceGetFieldValues(Device d, int count, Field *fields) {
    for (int i = 0; i < count; i++) {
        fields[i].status = fields[i].field == 230 ? OK : NOT_SUPPORTED;
        fields[i].value = (unsigned long long)of(d, "recovery", 0);
    }
    return OK;
}
