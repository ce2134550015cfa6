/* Runs inside a worker for a compiled kernel on a processor: takes frames of calls and of empty calls off the wire and answers
 * them, with no line of Python between the judge's clock and the kernel. What it does not know it gives back.
 *
 * Frames are those of judge_frames.py. Every argument is a pointer or a 64-bit integer, so a function may be given more of
 * them than it takes: a caller puts them in place and takes them away, on x86-64 and on aarch64 alike.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { SIZE = 256, HEAD = 8, HEAD_BYTES = 6, CLAIM = 16, NONCE = 24, NONCE_BYTES = 16, FEW = 6, MOST = 24 };
typedef int64_t word;
typedef void (*takes_few)(word, word, word, word, word, word);
typedef void (*takes_many)(word, word, word, word, word, word, word, word, word, word, word, word, word, word, word, word,
                           word, word, word, word, word, word, word, word);

struct prepared {
    unsigned char head[8];
    void *entry; /* none: an empty call */
    word count;
    word arguments[MOST];
    unsigned char answer[SIZE];
};

static void call(const struct prepared *one) {
    const word *a = one->arguments;
    if (!one->entry) return;
    if (one->count <= FEW)
        ((takes_few)one->entry)(a[0], a[1], a[2], a[3], a[4], a[5]);
    else
        ((takes_many)one->entry)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13],
                                 a[14], a[15], a[16], a[17], a[18], a[19], a[20], a[21], a[22], a[23]);
}

/* The length of the first frame that is none of these calls, which then lies in `frame`; 0 or less where the wire ended. */
long judge_serve(int wire, struct prepared *calls, long count, unsigned char *frame) {
    for (;;) {
        ssize_t size = recv(wire, frame, SIZE, 0);
        if (size < 0 && errno == EINTR) continue;
        if (size != SIZE) return (long)size;
        struct prepared *one = calls, *end = calls + count;
        while (one < end && memcmp(one->head, frame + HEAD, HEAD_BYTES)) one++;
        if (one == end) return (long)size;
        struct timespec began, ended;
        memcpy(one->answer + NONCE, frame + NONCE, NONCE_BYTES);
        clock_gettime(CLOCK_MONOTONIC, &began);
        call(one);
        clock_gettime(CLOCK_MONOTONIC, &ended);
        int64_t claim = (ended.tv_sec - began.tv_sec) * 1000000000ll + (ended.tv_nsec - began.tv_nsec);
        memcpy(one->answer + CLAIM, &claim, sizeof claim);
        send(wire, one->answer, SIZE, MSG_NOSIGNAL);
    }
}
