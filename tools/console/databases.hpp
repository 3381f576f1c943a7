// All services that the console was given.
#pragma once

#include "database.hpp"
#include "settings.hpp"

#include <memory>
#include <string>
#include <vector>

namespace skald::console {

/// Threads: any.
class databases
{
public:
    explicit databases(settings const& given)
    {
        for (auto const& one : given.services)
            read_.push_back(
                std::make_unique<database>(one.service, one.url, given.answer_within, database::rights::reads));
        for (auto const& one : given.operating)
            written_.push_back(
                std::make_unique<database>(one.service, one.url, given.answer_within, database::rights::writes));
    }

    std::vector<std::unique_ptr<database>> const& all() const { return read_; }

    /// Null if no such service was given.
    database* find(std::string const& service) const { return find(read_, service); }

    /// The one with which acts are done; null if the console only shows that service.
    database* operating(std::string const& service) const { return find(written_, service); }

private:
    static database* find(std::vector<std::unique_ptr<database>> const& all, std::string const& service)
    {
        for (auto const& one : all)
            if (one->service() == service) return one.get();
        return nullptr;
    }

    std::vector<std::unique_ptr<database>> read_;
    std::vector<std::unique_ptr<database>> written_;
};

}  // namespace skald::console
