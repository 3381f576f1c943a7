#include "commands.hpp"

#include "core/text.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>

namespace skald::tools {

void output::tell(std::string const& sentence, nlohmann::json const& object) const
{
    using nlohmann::json;
    std::puts((this->json ? object.dump(-1, ' ', false, json::error_handler_t::replace)
                          : core::visible_text(sentence, core::line_feeds::kept))
                  .c_str());
}

void complain(std::string_view why)
{
    std::fprintf(stderr, "skald: %s\n", core::visible_text(why, core::line_feeds::kept).c_str());
}

int output::refuse(std::string const& why) const
{
    if (json) tell(why, {{"refused", why}});
    else complain(core::visible_text(why));
    return 1;
}

int output::fail(std::string_view why, int code) const
{
    why = why.substr(0, why.find_last_not_of(" \n") + 1);
    if (json) tell({}, {{"refused", why}});
    else complain(why);
    return code;
}

int output::doubt(std::string const& text) const
{
    if (json) tell({}, {{"unknown", text}});
    else complain(text);
    return 1;
}

void output::add_flag(CLI::App& command)
{
    command.add_flag("--json", json, "print one JSON object");
}

CLI::Option* add_reason(CLI::App& command, std::string& reason, std::string const& help)
{
    auto const refusal = [](std::string const& text) -> std::string {
        if (text.find_first_not_of(" \t\r\n") == std::string::npos) return "is empty: say why, it is kept";
        if (text.size() > 4'000)
            return fmt::format("has {} bytes, of at most 4000: say where the rest is", text.size());
        return {};
    };
    return command.add_option("--reason", reason, help)->check(CLI::Validator{refusal, "TEXT", "reason"});
}

}  // namespace skald::tools
