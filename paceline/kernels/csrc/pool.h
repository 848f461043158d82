// A small thread pool: the caller works too, and idle threads spin briefly before they sleep.
#pragma once

#include <stdint.h>

namespace pl {

// Runs task(context, i) for i in 0 .. tasks - 1, in any order on any thread, and returns when all
// are done. Calls from several threads take turns.
void parallel(int tasks, void (*task)(const void* context, int i), const void* context);

constexpr int kWorthIt = 8192;   // numbers to compute below which threads are not worth waking

template <class Body>
void parallel_for(int tasks, const Body& body) {
  parallel(
      tasks, [](const void* context, int i) { (*static_cast<const Body*>(context))(i); }, &body);
}

// Names memory that is read soon: threads that wait for others fetch it into their caches
// meanwhile, a bit of each part in turn. It is never read through these pointers.
constexpr int kParts = 4;
void fetch_while_waiting(const uint8_t* const* parts, int count, int64_t bytes_each);

int threads();

// Returns false if the threads cannot be made.
bool set_threads(int count);

}  // namespace pl
