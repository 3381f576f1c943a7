// Any number of entries in the order of their keys, in bounded memory: what does not fit waits in files in TMPDIR.
#pragma once

#include "audit/entry.hpp"

#include <cstddef>
#include <cstdio>
#include <memory>
#include <optional>
#include <vector>

namespace skald::audit {

/// First add(), then next(). Throws std::runtime_error if the temporary files can't be written or read.
/// Threads: one at a time.
class sorted_entries
{
public:
    explicit sorted_entries(std::size_t bytes_max = std::size_t{32} * 1024 * 1024) : bytes_max_{bytes_max} {}

    void add(entry one);

    std::size_t count() const { return count_; }

    /// In the order of the keys' bytes; of equal keys, in no particular order. Nothing: there are no more.
    std::optional<entry> next();

private:
    struct closer
    {
        void operator()(std::FILE* file) const { static_cast<void>(std::fclose(file)); }
    };
    struct run
    {
        std::unique_ptr<std::FILE, closer> file;
        std::optional<entry> head;
    };

    void spill();
    void begin_reading();

    std::size_t bytes_max_;
    std::size_t bytes_{};
    std::size_t count_{};
    std::vector<entry> kept_;
    std::size_t next_kept_{};
    std::vector<run> runs_;
    std::vector<std::size_t> heap_;  // of the runs that have a head
    bool is_reading_{};
};

}  // namespace skald::audit
