#include "audit/json_line.hpp"

#include <nlohmann/json.hpp>

#include <utility>

namespace skald::audit {
namespace {

using nlohmann::json;

class handler final : public nlohmann::json_sax<json>
{
public:
    json_line line;

    bool null() override { return take(std::nullopt); }
    bool boolean(bool value) override { return take(value ? "true" : "false"); }
    bool number_integer(number_integer_t value) override { return take(std::to_string(value)); }
    bool number_unsigned(number_unsigned_t value) override { return take(std::to_string(value)); }
    bool number_float(number_float_t, string_t const& written) override { return take(written); }
    bool string(string_t& value) override { return take(std::move(value)); }
    bool binary(binary_t&) override { return refuse("it has bytes"); }

    bool start_object(std::size_t) override
    {
        if (depth_++ > 0) note_nested();
        return true;
    }
    bool end_object() override { return end(); }
    bool start_array(std::size_t) override
    {
        if (depth_++ == 0) return refuse("it is an array, and not an object: print each element on a line of its own");
        note_nested();
        return true;
    }
    bool end_array() override { return end(); }
    bool key(string_t& name) override
    {
        if (depth_ > 1) return true;
        name_ = std::move(name);
        bool const is_new = !line.members.contains(name_) && !line.nested.contains(name_);
        return is_new || refuse("it has the member " + name_ + " twice");
    }
    bool parse_error(std::size_t, std::string const&, json::exception const& error) override
    {
        return refuse("it is not JSON (" + why(error.what()) + ')');
    }

private:
    // "[...] parse error at line 1, column 2: syntax error...; last read: '...'": the line is quoted anyway.
    static std::string why(std::string_view what)
    {
        what = what.substr(0, what.find("; last read"));
        if (auto const place = what.find("column "); place != std::string_view::npos)
            if (auto const end = what.find(": ", place); end != std::string_view::npos) what.remove_prefix(end + 2);
        return std::string{what};
    }

    bool take(std::optional<std::string> value)
    {
        if (depth_ == 0) return refuse("it is not an object");
        if (depth_ == 1) line.members[name_] = std::move(value);
        return true;
    }
    void note_nested()
    {
        if (depth_ == 2) line.nested.insert(name_);
    }
    bool end()
    {
        --depth_;
        return true;
    }
    bool refuse(std::string why)
    {
        line.wrong = std::move(why);
        return false;
    }

    int depth_{};  // of objects and arrays: what is directly in the line's object has 1
    std::string name_;
};

}  // namespace

json_line read_json_line(std::string_view line)
{
    handler read;
    static_cast<void>(json::sax_parse(line, &read));
    return std::move(read.line);
}

}  // namespace skald::audit
