// What a harness consists of.
#pragma once

#include "testing/simulation.hpp"

#include <skald/testing/harness.hpp>

#include <string>
#include <utility>
#include <vector>

namespace skald::testing {

class harness::implementation
{
public:
    explicit implementation(std::string url) : all{std::move(url)} {}

    /// Ready to start a saga.
    inner::simulation& begun()
    {
        if (!all.has_begun()) all.begin();
        return all;
    }

    /// A delivery, or else a started step that is due.
    bool go_on()
    {
        if (!all.pull()) return all.go_on();
        all.process(0);
        return true;
    }

    /// Throws configuration_error: `what` would come too late.
    void require_no_database(std::string const& service, std::string const& what);

    inner::service_database& database(std::string const& service);
    message_view view(core::message const& m);

    inner::simulation all;
    std::vector<core::message> shown;  // by message_view::number - 1
};

}  // namespace skald::testing
