#include "pool.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace pl {
namespace {

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

constexpr auto kSpin = std::chrono::microseconds(40);
constexpr int64_t kFetch = 2048;   // bytes fetched between two looks for work
constexpr int kPaced = 256;        // bytes of them at a time, as a processor drops what it is late with
constexpr int kPatience = 4000;

// Memory to be fetched, which waiting threads share out among themselves. Who reads it while it is
// being replaced fetches something useless, and nothing worse.
class Fetches {
 public:
  void set(const uint8_t* const* parts, int count, int64_t bytes_each) {
    end_.store(0, std::memory_order_relaxed);
    for (int i = 0; i < count; ++i) parts_[i].store(parts[i], std::memory_order_relaxed);
    count_.store(count, std::memory_order_relaxed);
    at_.store(0, std::memory_order_relaxed);
    end_.store(bytes_each / kFetch * count, std::memory_order_release);
  }

  // Returns false if nothing is left.
  bool fetch() {
    const int64_t end = end_.load(std::memory_order_acquire);
    if (at_.load(std::memory_order_relaxed) >= end) return false;
    const int64_t at = at_.fetch_add(1, std::memory_order_relaxed);
    const int count = count_.load(std::memory_order_relaxed);
    const uint8_t* part = parts_[at % count].load(std::memory_order_relaxed) + at / count * kFetch;
    for (int64_t i = 0; i < kFetch; i += 64) {
      if (i % kPaced == 0) relax();
      __builtin_prefetch(part + i, 0, 2);
    }
    return true;
  }

 private:
  std::atomic<const uint8_t*> parts_[kParts] = {};
  std::atomic<int> count_{1};
  std::atomic<int64_t> at_{0}, end_{0};
};

// Workers claim tasks by lowering `left`; one that is late finds nothing and holds nobody up.
class Pool {
 public:
  int size() const { return int(workers_.size()) + 1; }

  void resize(int count) {
    std::lock_guard<std::mutex> turn(turn_);
    stop();
    for (int i = 1; i < count; ++i) workers_.emplace_back([this] { work(); });
  }

  void run(int tasks, void (*task)(const void*, int), const void* context) {
    std::lock_guard<std::mutex> turn(turn_);
    if (workers_.empty() || tasks == 1) {
      for (int i = 0; i < tasks; ++i) task(context, i);
      return;
    }
    task_ = task;
    context_ = context;
    done_.store(0, std::memory_order_relaxed);
    left_.store(tasks);
    if (sleepers_.load() > 0) {
      std::lock_guard<std::mutex> lock(sleep_);
      wake_.notify_all();
    }
    take_tasks();
    for (int i = 0; done_.load(std::memory_order_acquire) < tasks; ++i) {
      if (fetches.fetch()) continue;
      if (i < kPatience) relax();
      else std::this_thread::yield();   // a worker may wait for this very core
    }
  }

  Fetches fetches;

 private:
  // A claim is good only while its run lasts: the caller waits for every claimed task, and `left_`
  // is raised again only after that.
  void take_tasks() {
    int left = left_.load(std::memory_order_acquire);
    while (left > 0) {
      if (!left_.compare_exchange_weak(left, left - 1, std::memory_order_acq_rel)) continue;
      task_(context_, left - 1);
      done_.fetch_add(1, std::memory_order_acq_rel);
      left = left_.load(std::memory_order_acquire);
    }
  }

  bool idle() const { return left_.load() <= 0 && !stopping_.load(); }

  void work() {
    while (!stopping_.load()) {
      take_tasks();
      const auto give_up = std::chrono::steady_clock::now() + kSpin;
      while (idle() && std::chrono::steady_clock::now() < give_up) {
        for (int i = 0; i < 32 && idle(); ++i) {
          if (!fetches.fetch()) relax();
        }
      }
      if (!idle()) continue;
      std::unique_lock<std::mutex> lock(sleep_);
      sleepers_.fetch_add(1);
      wake_.wait(lock, [this] { return !idle(); });
      sleepers_.fetch_sub(1);
    }
  }

  void stop() {
    {
      std::lock_guard<std::mutex> lock(sleep_);
      stopping_.store(true);
      wake_.notify_all();
    }
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
    stopping_.store(false);
  }

  std::mutex turn_, sleep_;
  std::condition_variable wake_;
  std::vector<std::thread> workers_;
  std::atomic<int> left_{0}, done_{0}, sleepers_{0};
  std::atomic<bool> stopping_{false};
  void (*task_)(const void*, int) = nullptr;
  const void* context_ = nullptr;
};

// Never destroyed: its threads end with the process.
Pool& pool() {
  static Pool* pool = new Pool;
  return *pool;
}

}  // namespace

void parallel(int tasks, void (*task)(const void*, int), const void* context) {
  if (tasks > 0) pool().run(tasks, task, context);
}

void fetch_while_waiting(const uint8_t* const* parts, int count, int64_t bytes_each) {
  pool().fetches.set(parts, count, bytes_each);
}

int threads() { return pool().size(); }

int pieces(int n) {
  const int wanted = threads() == 1 ? 1 : threads() * 8;
  return wanted < n ? wanted : n;
}

bool set_threads(int count) {
  try {
    pool().resize(count);
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace pl
