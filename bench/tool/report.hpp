// The results, for people as they come in, and for programs at the end.
#pragma once

#include "entry.hpp"
#include "guards.hpp"
#include "phase.hpp"
#include "shop.hpp"
#include "transports.hpp"

#include <string>

#include <nlohmann/json.hpp>

namespace skald_bench {

class report
{
public:
    explicit report(options const& chosen) : chosen_{chosen} {}

    void settings(nlohmann::ordered_json described);

    /// The heading of a scenario, and what its figures mean.
    void begin(std::string const& scenario, std::string const& explanation);

    void add(phase_figures const& measured);
    void add(shop_figures const& measured);
    struct speed
    {
        std::string of;
        double per_second{};
    };
    /// The first as a share of the second.
    void add_ratio(std::string const& label, speed const& first, speed const& second);
    void add(latency_figures const& measured);
    void add(backlog_figures const& measured);
    void add(entry_figures const& measured);
    void add(message_figures const& measured);
    void add(guard_figures const& measured);
    void add(transport_figures const& measured);
    void add(nlohmann::ordered_json figures);  // for programs only: say() the same to people
    void say(std::string const& words) const;

    /// What one step of each cost the servers, side by side.
    void compare(phase_figures const& framework, phase_figures const& baseline) const;

    /// The requested files. Throws if one can't be written.
    void write() const;

private:
    nlohmann::ordered_json& scenario() { return document_["scenarios"].back(); }
    void write_plots() const;
    static void begin_shop();
    static void begin_transports();

    options const& chosen_;
    nlohmann::ordered_json document_;
};

}  // namespace skald_bench
