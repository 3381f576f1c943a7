#include "redis/entry_bytes.hpp"

#include "core/text.hpp"

#include <cstdint>
#include <optional>

namespace skald::redis_detail {
namespace {

constexpr std::size_t mark_size = 16;
constexpr std::size_t digest_size = 32;

// Of what an entry consists; another number where that changes.
constexpr std::string_view format = "skald-entry-1";

core::fingerprint digest_of(std::string_view database, core::saga_id const& id, std::string_view mark,
                            std::string_view rest)
{
    return core::fingerprint_of_parts({format, database, id.scope, id.key, mark, rest});
}

void add_number(std::string& to, std::uint64_t number)
{
    for (int byte = 0; byte < 8; ++byte) to += static_cast<char>(number >> (8 * byte) & 0xFF);
}

void add_text(std::string& to, std::string_view text)
{
    add_number(to, text.size());
    to += text;
}

/// Takes what add_number() and add_text() have added. Beyond the end there is nothing, and it is not well.
class reader
{
public:
    explicit reader(std::string_view bytes) : rest_{bytes} {}

    std::uint64_t number()
    {
        std::uint64_t value = 0;
        auto const bytes = take(8);
        for (std::size_t n = bytes.size(); n > 0; --n) value = value << 8 | static_cast<unsigned char>(bytes[n - 1]);
        return value;
    }

    std::string text() { return std::string{take(number())}; }

    bool is_well() const { return is_well_; }
    bool is_at_end() const { return is_well_ && rest_.empty(); }

private:
    std::string_view take(std::uint64_t size)
    {
        is_well_ = is_well_ && size <= rest_.size();
        if (!is_well_) return {};
        auto const taken = rest_.substr(0, size);
        rest_.remove_prefix(taken.size());
        return taken;
    }

    std::string_view rest_;
    bool is_well_{true};
};

}  // namespace

std::string epoch_mark(std::string_view epoch)
{
    return core::fingerprint_of(epoch).substr(0, mark_size);
}

std::string name_of(std::string_view database, core::saga_id const& id)
{
    return "skald:{" + core::to_hex(core::fingerprint_of_parts({database, id.scope, id.key})) + '}';
}

std::string write_entry(std::string_view database, ports::kept_response const& what)
{
    std::string rest;
    add_text(rest, what.fingerprint);
    add_number(rest, static_cast<std::uint64_t>(what.until.time_since_epoch().count()));
    add_number(rest, static_cast<std::uint64_t>(what.answer.status));
    add_text(rest, what.answer.content_type);
    add_number(rest, what.answer.headers.size());
    for (auto const& [name, value] : what.answer.headers) {
        add_text(rest, name);
        add_text(rest, value);
    }
    add_text(rest, what.answer.body);
    auto const mark = epoch_mark(what.epoch);
    return mark + digest_of(database, what.id, mark, rest) + rest;
}

std::shared_ptr<ports::kept_response const> read_entry(std::string_view database, core::saga_id const& id,
                                                       std::string_view epoch, std::string_view bytes)
{
    if (bytes.size() < mark_size + digest_size) return {};
    auto const mark = bytes.substr(0, mark_size);
    auto const rest = bytes.substr(mark_size + digest_size);
    if (mark != epoch_mark(epoch)) return {};
    if (bytes.substr(mark_size, digest_size) != digest_of(database, id, mark, rest)) return {};

    reader from{rest};
    auto made = std::make_shared<ports::kept_response>();
    made->id = id;
    made->epoch = epoch;
    made->fingerprint = from.text();
    made->until = core::instant{core::instant::duration{static_cast<std::int64_t>(from.number())}};
    auto const status = from.number();
    if (status < 200 || status > 599) return {};
    made->answer.status = static_cast<int>(status);
    made->answer.content_type = from.text();
    for (auto left = from.number(); left > 0 && from.is_well(); --left) {
        auto name = from.text();
        made->answer.headers.emplace_back(std::move(name), from.text());
    }
    made->answer.body = from.text();
    if (!from.is_at_end()) return {};
    return made;
}

}  // namespace skald::redis_detail
