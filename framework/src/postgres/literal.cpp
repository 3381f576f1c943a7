#include "postgres/literal.hpp"

#include "core/text.hpp"

#include <stdexcept>

namespace skald::postgres {
namespace {

template <class Values, class Write>
std::string join(Values const& values, std::string_view type, Write write)
{
    std::string out{"ARRAY["};
    for (bool first = true; auto const& value : values) {
        if (!first) out += ',';
        out += write(value);
        first = false;
    }
    return out.append("]::").append(type).append("[]");
}

}  // namespace

std::string literal(std::string_view text)
{
    if (!core::is_storable_text(text)) throw std::invalid_argument{"text that PostgreSQL can't store: not UTF-8, or a NUL in it"};
    std::string out{"'"};
    for (char const c : text) {
        if (c == '\'') out += '\'';
        out += c;
    }
    return out += '\'';
}

std::string literal(std::int64_t number)
{
    return std::to_string(number);
}

std::string bytes_literal(std::string_view bytes)
{
    return "'\\x" + core::to_hex(bytes) + "'";
}

std::string array_literal(std::vector<std::string> const& texts)
{
    return join(texts, "text", [](std::string const& text) { return literal(text); });
}

std::string bytes_array_literal(std::vector<std::string> const& values)
{
    return join(values, "bytea", [](std::string const& bytes) { return bytes_literal(bytes); });
}

std::string array_literal(std::vector<std::int64_t> const& numbers, std::string_view type)
{
    return join(numbers, type, [](std::int64_t number) { return literal(number); });
}

std::string array_literal(std::vector<bool> const& flags)
{
    return join(flags, "boolean", [](bool flag) { return flag ? "true" : "false"; });
}

std::string execute(std::string_view name, std::initializer_list<std::string> literals)
{
    std::string out{"EXECUTE "};
    out.append(name);
    if (literals.size() == 0) return out += ';';
    out += '(';
    for (bool first = true; auto const& value : literals) {
        if (!first) out += ',';
        out += value;
        first = false;
    }
    return out += ");";
}

}  // namespace skald::postgres
