#include "postgres/literal.hpp"

#include "core/text.hpp"

#include <algorithm>
#include <charconv>
#include <stdexcept>

namespace skald::postgres {
namespace {

// `{"a","b"}`: one constant, not ARRAY[...], which the server would parse and evaluate element by element.
template <class Values, class Write>
std::string array_of(Values const& values, Write write)
{
    std::string out{"{"};
    for (bool first = true; auto const& value : values) {
        if (!first) out += ',';
        write(out, value);
        first = false;
    }
    return out += '}';
}

std::string array_of_texts(std::vector<std::string> const& texts)
{
    return array_of(texts, [](std::string& out, std::string const& text) {
        out += '"';
        for (char const c : text) {
            if (c == '"' || c == '\\') out += '\\';
            out += c;
        }
        out += '"';
    });
}

}  // namespace

std::string parameter::checked(std::string_view text)
{
    if (!core::is_storable_text(text))
        throw std::invalid_argument{"text that PostgreSQL can't store: not UTF-8, or a NUL in it"};
    return std::string{text};
}

parameter::parameter(bytes value) : parameter{"\\x" + core::to_hex(value.data), form::quoted} {}

parameter::parameter(std::vector<std::string> const& texts) : parameter{checked(array_of_texts(texts)), form::quoted} {}

parameter::parameter(std::vector<bytes> const& values)
    : parameter{array_of(values, [](std::string& out,
                                    bytes value) { out.append("\"\\\\x").append(core::to_hex(value.data)) += '"'; }),
                form::quoted}
{}

parameter::parameter(std::vector<std::int64_t> const& numbers)
    : parameter{array_of(numbers, [](std::string& out, std::int64_t number) { out += std::to_string(number); }),
                form::quoted}
{}

parameter::parameter(std::vector<bool> const& flags)
    : parameter{array_of(flags, [](std::string& out, bool flag) { out += flag ? 't' : 'f'; }), form::quoted}
{}

void parameter::append_literal_to(std::string& sql) const
{
    if (form_ == form::null) sql += "NULL";
    if (form_ == form::bare) sql += text_;
    if (form_ != form::quoted) return;
    sql += '\'';
    for (std::size_t from = 0; from < text_.size();) {
        auto const quote = text_.find('\'', from);
        if (quote == std::string::npos) {
            sql.append(text_, from);
            break;
        }
        sql.append(text_, from, quote + 1 - from) += '\'';
        from = quote + 1;
    }
    sql += '\'';
}

std::string parameter::literal() const
{
    std::string sql;
    append_literal_to(sql);
    return sql;
}

parameter null_if_empty(std::string_view text)
{
    return text.empty() ? parameter{std::nullopt} : parameter{text};
}

std::string execute(std::string_view name, std::span<parameter const* const> parameters)
{
    std::string out{"EXECUTE "};
    out.append(name);
    char before = '(';
    for (auto const* one : parameters) {
        out += before;
        one->append_literal_to(out);
        before = ',';
    }
    return out.append(parameters.empty() ? ";" : ");");
}

std::string filled_in(std::string_view text, std::span<parameter const* const> parameters)
{
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
        auto const dollar = std::min(text.find('$', at), text.size());
        out += text.substr(at, dollar - at);
        at = dollar;
        if (at == text.size()) break;
        std::size_t number = 0;
        auto const* const digits = text.data() + at + 1;
        auto const end = std::from_chars(digits, text.data() + text.size(), number).ptr;
        if (end == digits) {  // a quoted body's $$ or $name$
            out += '$';
            ++at;
            continue;
        }
        parameters[number - 1]->append_literal_to(out);
        at = static_cast<std::size_t>(end - text.data());
    }
    return out;
}

}  // namespace skald::postgres
