// A small thread pool: the caller works too, and idle threads spin briefly before they sleep.
#pragma once

#include <stdint.h>

namespace pl {

// Runs task(context, i) for i in 0 .. tasks - 1, in any order on any thread, and returns when all
// are done. Calls from several threads take turns.
void parallel(int tasks, void (*task)(const void* context, int i), const void* context);

template <class Body>
void parallel_for(int tasks, const Body& body) {
  parallel(
      tasks, [](const void* context, int i) { (*static_cast<const Body*>(context))(i); }, &body);
}

int threads();

// Pieces of work for n equal parts: enough to even out threads of unequal speed.
int pieces(int n);

constexpr int kWorthIt = 8192;    // numbers to compute below which threads are not worth waking
constexpr int kEven = 262144;     // and below which a piece each is all that claiming them is worth

// Calls body(first, last) over ranges of `items` that compute so many numbers in all.
template <class Body>
void parallel_ranges(int items, int64_t numbers, const Body& body) {
  const int each = threads() < items ? threads() : items;
  const int tasks = numbers < kWorthIt ? 1 : numbers < kEven ? each : pieces(items);
  parallel_for(tasks, [&](int task) {
    body(int(int64_t(items) * task / tasks), int(int64_t(items) * (task + 1) / tasks));
  });
}

// Names memory that is read soon: threads that wait for others fetch it into their caches
// meanwhile, a bit of each part in turn. It is never read through these pointers.
constexpr int kParts = 4;
void fetch_while_waiting(const uint8_t* const* parts, int count, int64_t bytes_each);

// Returns false if the threads cannot be made.
bool set_threads(int count);

}  // namespace pl
