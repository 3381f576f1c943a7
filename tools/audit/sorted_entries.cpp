#include "audit/sorted_entries.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace skald::audit {
namespace {

constexpr auto nothing = std::numeric_limits<std::uint32_t>::max();

std::string folder()
{
    auto const* const named = std::getenv("TMPDIR");
    return named != nullptr && *named != '\0' ? named : "/tmp";
}

[[noreturn]] void fail(std::string const& what)
{
    auto const error = errno;
    throw std::system_error{error, std::generic_category(), what + " in " + folder()};
}

// In TMPDIR, which std::tmpfile does not look at; without a name, so that it is gone with us.
std::FILE* open_temporary()
{
    auto name = folder() + "/skald-audit-XXXXXX";
    int const made = ::mkostemp(name.data(), O_CLOEXEC);
    if (made == -1) fail("no temporary file can be made");
    ::unlink(name.c_str());
    auto* const file = ::fdopen(made, "w+b");
    if (file == nullptr) {
        auto const error = errno;
        ::close(made);
        errno = error;
        fail("no temporary file can be made");
    }
    return file;
}

void write_bytes(std::FILE* to, void const* bytes, std::size_t count)
{
    if (std::fwrite(bytes, 1, count, to) != count) fail("a temporary file can't be written");
}

void write_text(std::FILE* to, std::optional<std::string> const& text)
{
    auto const size = text ? static_cast<std::uint32_t>(text->size()) : nothing;
    write_bytes(to, &size, sizeof size);
    if (text) write_bytes(to, text->data(), text->size());
}

// False at the end of the file.
bool read_bytes(std::FILE* from, void* bytes, std::size_t count)
{
    if (std::fread(bytes, 1, count, from) == count) return true;
    if (std::ferror(from) != 0) fail("a temporary file can't be read");
    return false;
}

std::optional<std::string> read_text(std::FILE* from)
{
    std::uint32_t size{};
    read_bytes(from, &size, sizeof size);
    if (size == nothing) return std::nullopt;
    std::string text(size, '\0');
    read_bytes(from, text.data(), size);
    return text;
}

void write_entry(std::FILE* to, entry const& one)
{
    auto const values = static_cast<std::uint32_t>(one.values.size());
    write_bytes(to, &values, sizeof values);
    write_text(to, one.key);
    for (auto const& value : one.values) write_text(to, value);
}

std::optional<entry> read_entry(std::FILE* from)
{
    std::uint32_t values{};
    if (!read_bytes(from, &values, sizeof values)) return std::nullopt;
    entry one{*read_text(from), {}};
    for (; values > 0; --values) one.values.push_back(read_text(from));
    return one;
}

std::size_t size_of(entry const& one)
{
    auto size = sizeof(entry) + one.key.size();
    for (auto const& value : one.values) size += sizeof value + (value ? value->size() : 0);
    return size;
}

}  // namespace

void sorted_entries::add(entry one)
{
    bytes_ += size_of(one);
    ++count_;
    kept_.push_back(std::move(one));
    if (bytes_ > bytes_max_) spill();
}

void sorted_entries::spill()
{
    std::ranges::sort(kept_, {}, &entry::key);
    run made{std::unique_ptr<std::FILE, closer>{open_temporary()}, std::nullopt};
    for (auto const& one : kept_) write_entry(made.file.get(), one);
    if (std::fflush(made.file.get()) != 0) fail("a temporary file can't be written");
    std::rewind(made.file.get());
    runs_.push_back(std::move(made));
    kept_.clear();
    bytes_ = 0;
}

void sorted_entries::begin_reading()
{
    is_reading_ = true;
    if (runs_.empty()) {
        std::ranges::sort(kept_, {}, &entry::key);
        return;
    }
    if (!kept_.empty()) spill();
    for (std::size_t i = 0; i < runs_.size(); ++i) {
        runs_[i].head = read_entry(runs_[i].file.get());
        heap_.push_back(i);
    }
    std::ranges::make_heap(heap_, std::greater{}, [this](auto i) { return std::string_view{runs_[i].head->key}; });
}

std::optional<entry> sorted_entries::next()
{
    if (!is_reading_) begin_reading();
    if (runs_.empty()) {
        if (next_kept_ == kept_.size()) return std::nullopt;
        return std::move(kept_[next_kept_++]);
    }
    if (heap_.empty()) return std::nullopt;
    auto const key_of = [this](auto i) { return std::string_view{runs_[i].head->key}; };
    std::ranges::pop_heap(heap_, std::greater{}, key_of);
    auto& from = runs_[heap_.back()];
    auto least = std::exchange(from.head, read_entry(from.file.get()));
    if (from.head) std::ranges::push_heap(heap_, std::greater{}, key_of);
    else heap_.pop_back();
    return least;
}

}  // namespace skald::audit
