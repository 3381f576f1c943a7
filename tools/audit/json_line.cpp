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
        return ++depth_ == 1 || refuse("the member " + name_ + " is an object, and not a single value");
    }
    bool end_object() override
    {
        --depth_;
        return true;
    }
    bool start_array(std::size_t) override
    {
        return refuse(depth_ == 0 ? "it is an array, and not an object: print each element on a line of its own"
                                  : "the member " + name_ + " is an array, and not a single value");
    }
    bool end_array() override { return true; }
    bool key(string_t& name) override
    {
        name_ = std::move(name);
        return !line.members.contains(name_) || refuse("it has the member " + name_ + " twice");
    }
    bool parse_error(std::size_t, std::string const&, json::exception const&) override
    {
        return refuse("it is not JSON");
    }

private:
    bool take(std::optional<std::string> value)
    {
        if (depth_ == 0) return refuse("it is not an object");
        line.members[name_] = std::move(value);
        return true;
    }
    bool refuse(std::string why)
    {
        line.wrong = std::move(why);
        return false;
    }

    int depth_{};
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
