/* Disk faults on demand: preloaded into a process, it counts the calls that change files below one directory and at the
 * k-th of them kills the process, lets the call fail, or cuts the power: all that was written and not synced is undone.
 *
 * Calls go to the kernel by syscall(), so that nothing has to be looked up. Single-threaded use only. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WRITE = 1, SYNC = 2, RENAME = 4, TRUNCATE = 8 };
enum { KILL_BEFORE = 1, KILL_AFTER, KILL_TORN, POWER_CUT, FAIL_ONCE, FAIL_ON };

static char below[PATH_MAX];
static int mask, action, error_number, report, fired;
static long left, calls;

/* What a power cut takes back. Descriptors are never closed: closing one would drop SQLite's locks on that file. */
struct change { int fd; dev_t device; ino_t inode; off_t offset, size; size_t length; char *old; struct change *next; };
struct renamed { char to[PATH_MAX]; char old[4096]; ssize_t length; struct renamed *next; };
static struct change *changes;
static struct renamed *renames;

void shim_arm(const char *directory, int operations, long k, int what, int number, int descriptor) {
    snprintf(below, sizeof below, "%s", directory);
    mask = operations, left = k, action = what, error_number = number, report = descriptor, fired = 0, calls = 0;
}
int shim_fired(void) { return fired; }
long shim_calls(void) { return calls; }

static const char *path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
    return path;
}
static int ours(const char *path) { return below[0] && strncmp(path, below, strlen(below)) == 0; }
static int shared_memory(const char *path) { size_t n = strlen(path); return n > 4 && !strcmp(path + n - 4, "-shm"); }

static void cut_power(void) {
    for (struct change *c = changes; c; c = c->next) {
        syscall(SYS_pwrite64, c->fd, c->old, c->length, c->offset);
        syscall(SYS_ftruncate, c->fd, c->size);
    }
    for (struct renamed *r = renames; r; r = r->next) {
        if (r->length < 0) { syscall(SYS_unlinkat, AT_FDCWD, r->to, 0); continue; }
        int fd = syscall(SYS_openat, AT_FDCWD, r->to, O_WRONLY | O_TRUNC, 0);
        syscall(SYS_write, fd, r->old, r->length);
    }
}
static void die(void) { syscall(SYS_kill, getpid(), SIGKILL); for (;;) pause(); }

/* 0: go on; 1: fail; 2: die after the call; 3: do half of it and die. */
static int verdict(int operation, const char *name, const char *path) {
    if (!(mask & operation) || !action || !ours(path)) return 0;
    calls++;
    if (--left > 0 || (left < 0 && action != FAIL_ON)) return 0;
    if (!fired) dprintf(report, "%s %s\n", name, path);
    fired = 1;
    if (action == KILL_BEFORE) die();
    if (action == POWER_CUT) { cut_power(); die(); }
    if (action >= FAIL_ONCE) { errno = error_number; return 1; }
    return action == KILL_TORN && operation == WRITE ? 3 : 2;
}

static void remember(int fd, const char *path, off_t offset, size_t length) {
    struct stat facts;
    if (action != POWER_CUT || !ours(path) || shared_memory(path) || fstat(fd, &facts)) return;
    struct change *c = calloc(1, sizeof *c);
    c->device = facts.st_dev, c->inode = facts.st_ino, c->size = facts.st_size, c->offset = offset;
    c->fd = -1;
    for (struct change *other = changes; other; other = other->next)
        if (other->device == c->device && other->inode == c->inode) c->fd = other->fd;
    if (c->fd < 0) {  /* a descriptor of our own that can also be read from */
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        c->fd = syscall(SYS_openat, AT_FDCWD, link, O_RDWR | O_CLOEXEC, 0);
    }
    c->old = malloc(length + 1);
    ssize_t got = syscall(SYS_pread64, c->fd, c->old, length, offset);
    c->length = got > 0 ? got : 0;
    c->next = changes, changes = c;
}
static void synced(int fd, const char *path) {
    struct stat facts;
    if (fstat(fd, &facts)) return;
    for (struct change **c = &changes; *c;)
        if ((*c)->device == facts.st_dev && (*c)->inode == facts.st_ino) *c = (*c)->next;
        else c = &(*c)->next;
    for (struct renamed **r = &renames; *r;) {
        char copy[PATH_MAX];
        snprintf(copy, sizeof copy, "%s", (*r)->to);
        if (!strcmp(dirname(copy), path)) *r = (*r)->next;
        else r = &(*r)->next;
    }
}

static ssize_t write_at(int fd, const void *data, size_t length, off_t offset, int positioned) {
    char path[PATH_MAX];
    if (!below[0]) return positioned ? syscall(SYS_pwrite64, fd, data, length, offset) : syscall(SYS_write, fd, data, length);
    path_of(fd, path);
    int what = verdict(WRITE, "write", path);
    if (what == 1) return -1;
    remember(fd, path, positioned ? offset : lseek(fd, 0, SEEK_CUR), length);
    size_t part = what == 3 ? length / 2 : length;
    ssize_t done = positioned ? syscall(SYS_pwrite64, fd, data, part, offset) : syscall(SYS_write, fd, data, part);
    if (what) die();
    return done;
}
ssize_t write(int fd, const void *data, size_t length) { return write_at(fd, data, length, 0, 0); }
ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) { return write_at(fd, data, length, offset, 1); }
ssize_t pwrite64(int fd, const void *data, size_t length, off64_t offset) { return write_at(fd, data, length, offset, 1); }

static int sync_by(long call, int fd) {
    char path[PATH_MAX];
    if (!below[0]) return syscall(call, fd);
    int what = verdict(SYNC, "sync", path_of(fd, path));
    if (what == 1) return -1;
    int done = syscall(call, fd);
    if (done == 0) synced(fd, path);
    if (what) die();
    return done;
}
int fsync(int fd) { return sync_by(SYS_fsync, fd); }
int fdatasync(int fd) { return sync_by(SYS_fdatasync, fd); }

int rename(const char *from, const char *to) {
    int what = verdict(RENAME, "rename", to);
    if (what == 1) return -1;
    if (action == POWER_CUT && ours(to)) {
        struct renamed *r = calloc(1, sizeof *r);
        snprintf(r->to, sizeof r->to, "%s", to);
        int fd = syscall(SYS_openat, AT_FDCWD, to, O_RDONLY | O_CLOEXEC, 0);
        r->length = fd < 0 ? -1 : syscall(SYS_read, fd, r->old, sizeof r->old);
        r->next = renames, renames = r;
    }
    int done = syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    if (what) die();
    return done;
}

static int truncate_to(int fd, off_t size) {
    char path[PATH_MAX];
    struct stat facts;
    if (!below[0]) return syscall(SYS_ftruncate, fd, size);
    int what = verdict(TRUNCATE, "truncate", path_of(fd, path));
    if (what == 1) return -1;
    if (!fstat(fd, &facts) && size < facts.st_size) remember(fd, path, size, facts.st_size - size);
    int done = syscall(SYS_ftruncate, fd, size);
    if (what) die();
    return done;
}
int ftruncate(int fd, off_t size) { return truncate_to(fd, size); }
int ftruncate64(int fd, off64_t size) { return truncate_to(fd, size); }
