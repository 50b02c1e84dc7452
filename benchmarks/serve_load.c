/* A closed-loop client on loopback: each connection sends a request, waits for the whole
 * answer, and sends the next. Prints requests, seconds, and the median and 99th
 * percentile of the latency in microseconds.
 *
 *   serve_load http|grpc PORT CONNECTIONS SECONDS FIRST LATER
 *
 * FIRST and LATER are files with the bytes of a connection's first and of every other
 * request. For gRPC these are HTTP/2 frames; stream numbers are put into them here.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { kMaxConnections = 1024, kBuffer = 1 << 21, kMaxSamples = 1 << 22 };

typedef struct {
  int fd;
  uint32_t stream;
  char* in;
  size_t held;
  char* out;
  size_t sent, allowed, size; /* allowed: by the windows of the server */
  long window, stream_window, initial_window;
  double began;
} Connection;

static char* first_request;
static char* later_request;
static size_t first_size, later_size;
static int is_grpc;
static float* samples;
static size_t sample_count;

static void fail(const char* what) {
  fprintf(stderr, "serve_load: %s: %s\n", what, strerror(errno));
  exit(1);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static char* load(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  if (!file) fail(path);
  fseek(file, 0, SEEK_END);
  *size = ftell(file);
  rewind(file);
  char* data = malloc(*size + 1);
  if (fread(data, 1, *size, file) != *size) fail(path);
  fclose(file);
  return data;
}

static size_t frame_size(const char* at) {
  const unsigned char* p = (const unsigned char*)at;
  return 9 + ((size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2]);
}

/* Lets as many frames be sent as the windows have room for. */
static void allow(Connection* c) {
  while (c->allowed < c->size) {
    const char* frame = c->out + c->allowed;
    long length = (long)frame_size(frame) - 9;
    if (frame[3] == 0) {
      if (length > c->window || length > c->stream_window) return;
      c->window -= length;
      c->stream_window -= length;
    }
    c->allowed += length + 9;
  }
}

/* Writes what fits; the rest is written when the socket takes more. */
static void push(Connection* c) {
  if (is_grpc) allow(c);
  while (c->sent < c->allowed) {
    ssize_t n = send(c->fd, c->out + c->sent, c->allowed - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
      if (errno == EAGAIN) return;
      fail("send");
    }
    c->sent += n;
  }
}

static void begin(Connection* c) {
  int is_first = c->stream == 0;
  c->size = is_first ? first_size : later_size;
  memcpy(c->out, is_first ? first_request : later_request, c->size);
  c->sent = 0;
  c->stream += is_first ? 1 : 2;
  size_t at = 0;
  if (is_grpc && is_first) at = 24; /* the preface */
  while (is_grpc && at < c->size) {
    uint32_t number;
    memcpy(&number, c->out + at + 5, 4);
    if (number) { /* not SETTINGS or a WINDOW_UPDATE of the connection */
      number = htonl(c->stream);
      memcpy(c->out + at + 5, &number, 4);
    }
    at += frame_size(c->out + at);
  }
  c->allowed = is_grpc ? (is_first ? 24 : 0) : c->size;
  c->stream_window = c->initial_window;
  c->began = now();
  push(c);
}

static void write_all(int fd, const char* data, size_t size) {
  while (size) {
    ssize_t n = send(fd, data, size, MSG_NOSIGNAL);
    if (n < 0) fail("send");
    data += n;
    size -= n;
  }
}

/* Bytes of a whole answer at the start of the buffer, 0 if it is not there yet. */
static size_t http_answer(Connection* c) {
  c->in[c->held] = 0;
  char* end = memmem(c->in, c->held, "\r\n\r\n", 4);
  if (!end) return 0;
  if (strncmp(c->in, "HTTP/1.1 200", 12)) fail(c->in);
  /* Not the end of Inference-Header-Content-Length. */
  char* length = strcasestr(c->in, "\ncontent-length:");
  if (!length || length > end) fail("an answer has no length");
  size_t size = end + 4 - c->in + strtoul(length + 16, NULL, 10);
  return c->held >= size ? size : 0;
}

static uint32_t number_at(const char* at) {
  uint32_t number;
  memcpy(&number, at, 4);
  return ntohl(number);
}

/* What the server lets the client send. */
static void take_windows(Connection* c, const char* frame) {
  if (frame[3] == 8) { /* WINDOW_UPDATE */
    uint32_t stream = number_at(frame + 5);
    if (stream == 0) c->window += number_at(frame + 9);
    if (stream == c->stream) c->stream_window += number_at(frame + 9);
  }
  if (frame[3] == 4 && !(frame[4] & 1)) { /* SETTINGS */
    for (size_t at = 9; at < frame_size(frame); at += 6) {
      if (frame[at] || frame[at + 1] != 4) continue; /* INITIAL_WINDOW_SIZE */
      long value = number_at(frame + at + 2);
      c->stream_window += value - c->initial_window;
      c->initial_window = value;
    }
  }
}

/* Takes frames; whether one of them ended the answer. */
static int grpc_answer(Connection* c) {
  size_t at = 0;
  int done = 0;
  while (c->held - at >= 9 && c->held - at >= frame_size(c->in + at)) {
    char* frame = c->in + at;
    int kind = frame[3], flags = frame[4];
    at += frame_size(frame);
    take_windows(c, frame);
    if (kind == 3 || kind == 7) fail("the server ended a stream");
    if (kind == 4 && !(flags & 1)) write_all(c->fd, "\0\0\0\4\1\0\0\0\0", 9);
    if (kind == 6 && !(flags & 1)) {
      frame[4] = 1;
      write_all(c->fd, frame, 17);
    }
    if (kind == 1 && flags & 1) done = 1;
  }
  memmove(c->in, c->in + at, c->held - at);
  c->held -= at;
  return done;
}

static void receive(Connection* c) {
  ssize_t n = recv(c->fd, c->in + c->held, kBuffer - 1 - c->held, MSG_DONTWAIT);
  if (n < 0 && errno == EAGAIN) return;
  if (n <= 0) fail("recv");
  c->held += n;
  if (is_grpc) {
    if (!grpc_answer(c)) {
      push(c);
      return;
    }
  } else {
    size_t size = http_answer(c);
    if (!size) return;
    memmove(c->in, c->in + size, c->held - size);
    c->held -= size;
  }
  if (sample_count < kMaxSamples) samples[sample_count++] = (now() - c->began) * 1e6;
  begin(c);
}

static void connect_to(Connection* c, int port, int epoll) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  c->fd = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(c->fd, (struct sockaddr*)&address, sizeof address)) fail("connect");
  c->window = c->initial_window = 65535;
  int one = 1;
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  c->in = malloc(kBuffer);
  c->out = malloc(first_size > later_size ? first_size : later_size);
  struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c};
  epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event);
}

static int by_value(const void* a, const void* b) {
  float x = *(const float*)a, y = *(const float*)b;
  return (x > y) - (x < y);
}

int main(int count, char** arguments) {
  if (count != 7) fail("usage: http|grpc PORT CONNECTIONS SECONDS FIRST LATER");
  is_grpc = !strcmp(arguments[1], "grpc");
  int connections = atoi(arguments[3]);
  if (connections < 1 || connections > kMaxConnections) fail("connections");
  first_request = load(arguments[5], &first_size);
  later_request = load(arguments[6], &later_size);
  samples = malloc(kMaxSamples * sizeof *samples);
  Connection* held = calloc(connections, sizeof *held);
  int epoll = epoll_create1(0);
  for (int i = 0; i < connections; ++i) connect_to(&held[i], atoi(arguments[2]), epoll);
  double start = now(), end = start + atof(arguments[4]);
  for (int i = 0; i < connections; ++i) begin(&held[i]);
  struct epoll_event events[64];
  while (now() < end) {
    int ready = epoll_wait(epoll, events, 64, 1000);
    for (int i = 0; i < ready; ++i) {
      Connection* c = events[i].data.ptr;
      if (events[i].events & EPOLLOUT) push(c);
      if (events[i].events & ~EPOLLOUT) receive(c);
    }
  }
  double seconds = now() - start;
  qsort(samples, sample_count, sizeof *samples, by_value);
  if (!sample_count) fail("no answer");
  printf("%zu %.6f %.1f %.1f\n", sample_count, seconds, samples[sample_count / 2],
         samples[sample_count * 99 / 100]);
  return 0;
}
