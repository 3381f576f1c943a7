// Checks of a saga's data, declared in skald/detail/data.hpp.
//
// nlohmann::json by itself takes 100,000 levels of nesting and then overflows the stack, keeps the last of two members
// with one name, turns 2^64 into a double and 4294967297 into 1 (reliability finding F14). Here they are errors.
#include <skald/detail/data.hpp>

#include "core/json_values.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace skald::detail {
namespace {

constexpr std::size_t depth_max = 64;

[[noreturn]] void refuse(std::string const& what)
{
    throw data_error{"the body is not JSON that Skald accepts: " + what};
}

void check_text(std::string const& text)
{
    if (text.find('\0') != std::string::npos) refuse("\\u0000, which PostgreSQL can't store");
}

void check_level(std::size_t levels_around)
{
    if (levels_around == depth_max) refuse("nesting deeper than 64 levels");
}

// Checks and builds in one pass over the bytes. Anything not allowed ends the pass before it is built, so that no
// nesting can do harm, neither here nor when the value is copied, compared or written.
class reader final : public nlohmann::json_sax<nlohmann::json>
{
public:
    nlohmann::json value;

    bool null() override { return put(nullptr); }
    bool boolean(bool flag) override { return put(flag); }
    bool number_integer(number_integer_t number) override { return put(number); }
    bool number_unsigned(number_unsigned_t number) override { return put(number); }

    bool number_float(number_float_t number, string_t const& text) override
    {
        if (text.find_first_of(".eE") == string_t::npos) refuse("a whole number beyond 64 bits: " + text);
        // If it is written out in digits, every one counts; from 2^53 on a double does not hold them all.
        bool const written_out = text.find_first_of("eE") == string_t::npos;
        if (written_out && std::abs(number) >= 9007199254740992.0) refuse("more digits than a double holds: " + text);
        return put(number);
    }

    bool string(string_t& text) override
    {
        check_text(text);
        return put(text);
    }

    bool binary(binary_t&) override { return false; }
    bool start_object(std::size_t) override { return open(nlohmann::json::value_t::object); }

    bool key(string_t& name) override
    {
        check_text(name);
        auto const [member, is_new] = open_[levels_ - 1]->emplace(name, nullptr);
        if (!is_new) refuse("the name \"" + name + "\" twice in one object");
        member_ = &*member;
        return true;
    }

    bool end_object() override { return close(); }
    bool start_array(std::size_t) override { return open(nlohmann::json::value_t::array); }
    bool end_array() override { return close(); }

    bool parse_error(std::size_t, std::string const&, nlohmann::json::exception const& error) override
    {
        refuse(error.what());
    }

private:
    template <class Value>
    nlohmann::json& place(Value const& what)
    {
        if (levels_ == 0) return value = what;
        if (auto& inner = *open_[levels_ - 1]; inner.is_array()) return inner.emplace_back(what);
        return *member_ = what;
    }

    template <class Value>
    bool put(Value const& what)
    {
        place(what);
        return true;
    }

    bool open(nlohmann::json::value_t kind)
    {
        check_level(levels_);
        auto& inner = place(kind);
        open_[levels_++] = &inner;
        return true;
    }

    bool close()
    {
        --levels_;
        return true;
    }

    std::array<nlohmann::json*, depth_max> open_{};  // from the outermost to the innermost
    std::size_t levels_ = 0;
    nlohmann::json* member_ = nullptr;  // whose name was read last
};

// As dump() writes them.
nlohmann::json as_object(nlohmann::json::binary_t const& bytes)
{
    auto subtype = bytes.has_subtype() ? nlohmann::json(bytes.subtype()) : nlohmann::json(nullptr);
    auto list = nlohmann::json::array();
    for (auto const byte : bytes) list.push_back(byte);
    return {{"bytes", std::move(list)}, {"subtype", std::move(subtype)}};
}

void check_depth(nlohmann::json const& value, std::size_t levels_around)
{
    if (value.is_structured() || value.is_binary()) check_level(levels_around);
    if (value.is_binary()) check_level(levels_around + 1);
    if (!value.is_structured()) return;
    for (auto const& inner : value) check_depth(inner, levels_around + 1);
}

void make_as_read(nlohmann::json& value)
{
    using kind = nlohmann::json::value_t;
    switch (value.type()) {
    case kind::object:
        for (auto& [name, member] : value.get_ref<nlohmann::json::object_t&>()) {
            check_text(name);
            make_as_read(member);
        }
        break;
    case kind::array:
        for (auto& element : value) make_as_read(element);
        break;
    case kind::string: check_text(value.get_ref<std::string const&>()); break;
    case kind::number_integer:
        if (auto const number = value.get<std::int64_t>(); number >= 0) value = static_cast<std::uint64_t>(number);
        break;
    case kind::binary: value = as_object(value.get_binary()); break;
    case kind::discarded: refuse("a value that was discarded");
    default: break;
    }
}

bool has_changed(nlohmann::json const& received, nlohmann::json const& understood)
{
    if (!understood.is_number()) return false;
    return received.is_boolean() || (received.is_number() && core::exactly(received) != core::exactly(understood));
}

struct changed_number
{
    std::string path;
    nlohmann::json const* received;
    nlohmann::json const* understood;
};

std::optional<changed_number> find_changed(nlohmann::json const& received, nlohmann::json const& understood)
{
    if (has_changed(received, understood)) return changed_number{"", &received, &understood};
    auto const below = [](auto const& name, nlohmann::json const& one, nlohmann::json const& other) {
        auto found = find_changed(one, other);
        if (found) found->path.insert(0, fmt::format("/{}", name));
        return found;
    };
    if (received.is_object() && understood.is_object()) {
        for (auto const& [name, value] : understood.items())
            if (auto const it = received.find(name); it != received.end())
                if (auto found = below(name, *it, value)) return found;
    }
    else if (received.is_array() && understood.is_array() && received.size() == understood.size()) {
        for (std::size_t i = 0; i < received.size(); ++i)
            if (auto found = below(i, received[i], understood[i])) return found;
    }
    return std::nullopt;
}

}  // namespace

nlohmann::json parse_checked(std::string_view body)
{
    // nlohmann takes a NUL for the end of the body, and ignores what follows.
    if (body.find('\0') != std::string_view::npos) throw data_error{"the body is not JSON that Skald accepts: a NUL"};
    reader read;
    nlohmann::json::sax_parse(body, &read);
    return std::move(read.value);
}

void check_depth(nlohmann::json const& data)
{
    check_depth(data, 0);
}

bool is_same(nlohmann::json const& one, nlohmann::json const& other)
{
    return core::is_same(one, other);
}

std::string write_checked(nlohmann::json& data)
{
    check_depth(data);
    // JSON can't represent them, and dump() writes null.
    if (auto const* const found = core::find_not_finite(data)) core::refuse_not_finite(data, *found);
    auto text = data.dump();
    make_as_read(data);
    return text;
}

void check_numbers_survived(nlohmann::json const& received, nlohmann::json const& understood, std::string_view type)
{
    auto const changed = find_changed(received, understood);
    if (!changed) return;
    throw data_error{
        fmt::format("{} is {}, which does not fit {}: it must be a {}number that its type holds, and became {}",
                    changed->path.empty() ? "it" : changed->path, changed->received->dump(), type,
                    changed->understood->is_number_float() ? "" : "whole ", changed->understood->dump())};
}

}  // namespace skald::detail
