// A small persistent pool of threads and the barriers between the stages of an update.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace robo_rl {

/// Threads wait here until all `size` of them have arrived. They first spin for some ten microseconds, since most waits
/// are shorter than a sleep. Then they sleep, since on a busy machine the missing threads may need their core.
class Barrier {
   public:
    explicit Barrier(int size) : size_(size), missing_(size) {}

    void wait() {
        if (size_ == 1) return;
        const uint32_t round = round_.load(std::memory_order_relaxed);
        if (missing_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
            missing_.store(size_, std::memory_order_relaxed);
            {
                std::lock_guard<std::mutex> lock(mutex_);
                round_.store(round + 1, std::memory_order_release);
            }
            passed_.notify_all();
            return;
        }
        for (int spins = 0; spins < kSpins; ++spins) {
            if (round_.load(std::memory_order_acquire) != round) return;
            pause();
        }
        std::unique_lock<std::mutex> lock(mutex_);
        passed_.wait(lock, [&] { return round_.load(std::memory_order_acquire) != round; });
    }

   private:
    static constexpr int kSpins = 2000;

    static void pause() {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#endif
    }

    const int size_;
    alignas(64) std::atomic<int> missing_;
    alignas(64) std::atomic<uint32_t> round_{0};  // wraps around after some days
    std::mutex mutex_;
    std::condition_variable passed_;
};

/// A contiguous part of a list of tasks.
struct Share {
    int begin, end;
};

/// The threads that work on one thing together. Their results never depend on the number of threads: each task has one
/// owner, and sums over tasks are computed in the order of the tasks.
struct Team {
    int rank, size;
    Barrier* barrier;

    Share share(int tasks) const { return {tasks * rank / size, tasks * (rank + 1) / size}; }
    void wait() const { barrier->wait(); }
};

/// Persistent threads; the caller of `run` is thread 0. The other threads sleep between two runs.
class Pool {
   public:
    explicit Pool(int size) : size_(size), finished_(size) {
        try {
            for (int thread = 1; thread < size; ++thread) workers_.emplace_back([this, thread] { work(thread); });
        } catch (...) {  // no more threads: those that were started must end, or the whole process would
            stop();
            throw;
        }
    }

    ~Pool() { stop(); }

    int size() const { return size_; }

    /// Call job(thread) on every thread; return when all calls have returned. Jobs must not throw.
    void run(const std::function<void(int)>& job) {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            job_ = &job;
            ++runs_;
        }
        wake_.notify_all();
        job(0);
        finished_.wait();
    }

   private:
    void stop() {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            stopped_ = true;
        }
        wake_.notify_all();
        for (std::thread& worker : workers_) worker.join();
    }

    void work(int thread) {
        for (long seen = 0;;) {
            const std::function<void(int)>* job;
            {
                std::unique_lock<std::mutex> lock(mutex_);
                wake_.wait(lock, [&] { return stopped_ || runs_ != seen; });
                if (stopped_) return;
                seen = runs_;
                job = job_;
            }
            (*job)(thread);
            finished_.wait();
        }
    }

    const int size_;
    Barrier finished_;
    std::mutex mutex_;
    std::condition_variable wake_;
    const std::function<void(int)>* job_ = nullptr;
    long runs_ = 0;
    bool stopped_ = false;
    std::vector<std::thread> workers_;
};

}  // namespace robo_rl
