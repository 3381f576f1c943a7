// What the gateway did, on disk: a JSON object a line, appended and synced before anybody is told. It survives the
// process and the machine; what a death left half-written at its end was never answered, and is cut off.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace gateway {

/// A charge, or a refund of one. Never changes.
struct entry
{
    std::string id;
    std::string charge{};  // of a refund: what it refunds; empty: this is a charge
    std::int64_t amount{};
    std::string currency{};
    std::string reference{};
    std::string status{};   // "succeeded", "declined"
    std::string key{};      // the Idempotency-Key; empty: none
    std::string request{};  // the request under that key: another one must not use it

    bool operator==(entry const&) const = default;
};

/// Threads: one at a time.
class ledger
{
public:
    /// Reads it, or makes it. Throws std::runtime_error if another process has it, or if a line in it is no entry: what
    /// was told to somebody must not be forgotten.
    explicit ledger(std::filesystem::path const& file);
    ~ledger();
    ledger(ledger const&) = delete;
    ledger& operator=(ledger const&) = delete;

    std::vector<entry> const& entries() const { return entries_; }

    /// On disk when it returns. Where that is impossible the process ends: nobody can tell then what is on disk.
    void append(entry made);

private:
    void read();

    std::filesystem::path const name_;
    int const file_;
    std::vector<entry> entries_;
};

}  // namespace gateway
