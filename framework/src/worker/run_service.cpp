// A whole main().
#include "http/server.hpp"
#include "worker/rehearsal_command.hpp"
#include "worker/settings.hpp"
#include "worker/stored_check.hpp"

#include <skald/errors.hpp>
#include <skald/worker.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <new>
#include <system_error>
#include <utility>

namespace skald {
namespace {

bool is_of_skald(std::string_view flag)
{
    constexpr std::array others{"--help", "--help-all", "--rehearse", "--scope", "--data", "--json", "--check-stored"};
    return std::ranges::find(others, flag) != others.end() ||
           std::ranges::find(worker_detail::settings(), flag, &worker_detail::setting::flag) !=
               worker_detail::settings().end();
}

bool is_flag(std::string_view text)
{
    return text.starts_with("--") && text.size() > 2 &&
           text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string_view::npos;
}

void check(std::vector<program_option> const& own)
{
    for (auto it = own.begin(); it != own.end(); ++it) {
        if (!is_flag(it->flag))
            throw configuration_error{
                fmt::format("the program's own flag '{}' is not --, then lower-case letters, digits "
                            "and dashes",
                            it->flag)};
        if (is_of_skald(it->flag))
            throw configuration_error{
                fmt::format("{} is a flag of Skald's: give the program's own another name", it->flag)};
        if (std::ranges::count(own, it->flag, &program_option::flag) > 1)
            throw configuration_error{fmt::format("the program's own flag {} is there twice", it->flag)};
        if (it->value == nullptr)
            throw configuration_error{fmt::format("the program's own flag {} has no variable to go to", it->flag)};
    }
}

std::string help_text(char const* program, std::vector<program_option> const& own, bool all)
{
    auto text = fmt::format("usage: {} [--flag value]...\n\n", program);
    for (auto const& one : own) text += fmt::format("  {:<36} {}\n", one.flag + " VALUE", one.help);
    if (!own.empty()) text += '\n';
    return text + config::help(all) + worker_detail::rehearsal_help + worker_detail::stored_check_help;
}

bool asks_for(std::vector<std::string> const& arguments, std::string_view flag)
{
    return std::ranges::find(arguments, flag) != arguments.end();
}

// The exit code says whether it is worth starting again: what is short now, threads too, may be there then.
bool may_pass(std::exception const& error)
{
    if (dynamic_cast<http::address_unavailable const*>(&error) != nullptr) return true;
    if (dynamic_cast<worker_detail::stored_not_examined const*>(&error) != nullptr) return true;
    if (dynamic_cast<std::bad_alloc const*>(&error) != nullptr) return true;
    auto const* const system = dynamic_cast<std::system_error const*>(&error);
    return system != nullptr && (system->code() == std::errc::resource_unavailable_try_again ||
                                 system->code() == std::errc::not_enough_memory);
}

}  // namespace

int run_service(std::function<service()> const& make, int argc, char const* const* argv,
                std::vector<program_option> const& own, std::shared_ptr<logger> log)
try {
    check(own);
    std::vector<std::string> arguments{argv + 1, argv + argc};
    bool const all = asks_for(arguments, "--help-all");
    if (all || asks_for(arguments, "--help") || asks_for(arguments, "-h")) {
        std::fputs(help_text(argv[0], own, all).c_str(), stdout);
        return 0;
    }
    for (auto const& one : own)
        if (auto value = worker_detail::take_argument(arguments, one.flag)) *one.value = *std::move(value);
    auto const stored = worker_detail::take_stored_check(arguments);
    auto const rehearsal = worker_detail::take_rehearsal(arguments);
    auto const settings = worker_detail::from(worker_detail::read_environment(), arguments);
    auto what = make();
    if (stored) return worker_detail::run_stored_check(*stored, what, settings);
    if (rehearsal) return worker_detail::run_rehearsal(*rehearsal, what, settings);
    return worker{std::move(what), settings, std::move(log)}.run();
}
catch (std::exception const& error) {
    std::fputs(fmt::format("{}: {}\n", argv[0], error.what()).c_str(), stderr);
    using nlohmann::json;
    if (asks_for({argv + 1, argv + argc}, "--json"))
        std::puts(json{{"refused", error.what()}}.dump(-1, ' ', false, json::error_handler_t::replace).c_str());
    return may_pass(error) ? 1 : 2;
}

int run_service(service what, int argc, char const* const* argv, std::shared_ptr<logger> log)
{
    return run_service([&] { return std::move(what); }, argc, argv, {}, std::move(log));
}

}  // namespace skald
