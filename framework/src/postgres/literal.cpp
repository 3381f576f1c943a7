#include "postgres/literal.hpp"

#include "core/text.hpp"

#include <stdexcept>

namespace skald::postgres {
namespace {

// One constant, not ARRAY[...], which the server would parse and evaluate element by element.
template <class Values, class Write>
std::string array_of(Values const& values, std::string_view type, Write write)
{
    std::string out{"'{"};
    for (bool first = true; auto const& value : values) {
        if (!first) out += ',';
        write(out, value);
        first = false;
    }
    return out.append("}'::").append(type).append("[]");
}

void check_storable(std::string_view text)
{
    if (!core::is_storable_text(text))
        throw std::invalid_argument{"text that PostgreSQL can't store: not UTF-8, or a NUL in it"};
}

}  // namespace

std::string literal(std::string_view text)
{
    check_storable(text);
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

std::string literal_or_null(std::optional<std::string> const& text)
{
    return text ? literal(*text) : "NULL";
}

std::string bytes_literal(std::string_view bytes)
{
    return "'\\x" + core::to_hex(bytes) + "'";
}

std::string array_literal(std::vector<std::string> const& texts)
{
    return array_of(texts, "text", [](std::string& out, std::string const& text) {
        check_storable(text);
        out += '"';
        for (char const c : text) {
            if (c == '"' || c == '\\') out += '\\';
            if (c == '\'') out += '\'';
            out += c;
        }
        out += '"';
    });
}

std::string bytes_array_literal(std::vector<std::string> const& values)
{
    return array_of(values, "bytea", [](std::string& out, std::string const& bytes) {
        out.append("\"\\\\x").append(core::to_hex(bytes)) += '"';
    });
}

std::string array_literal(std::vector<std::int64_t> const& numbers, std::string_view type)
{
    return array_of(numbers, type, [](std::string& out, std::int64_t number) { out += std::to_string(number); });
}

std::string array_literal(std::vector<bool> const& flags)
{
    return array_of(flags, "boolean", [](std::string& out, bool flag) { out += flag ? 't' : 'f'; });
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
