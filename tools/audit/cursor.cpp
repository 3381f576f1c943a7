#include "audit/cursor.hpp"

#include "skald_audit_queries.hpp"

namespace skald::audit {

std::string replaced(std::string text, std::string const& word, std::string const& by)
{
    auto const marked = '@' + word + '@';
    if (auto const at = text.find(marked); at != std::string::npos) text.replace(at, marked.size(), by);
    return text;
}

bool cursor::advance()
{
    if (is_over_) return false;
    if (at_ + 1 < rows_.size()) {
        ++at_;
        return true;
    }
    rows_ = connection_->run(replaced(std::string{queries::audit_fetch}, "cursor", name_));
    at_ = 0;
    is_over_ = rows_.empty();
    return !is_over_;
}

}  // namespace skald::audit
