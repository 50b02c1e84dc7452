#include "proa/base/settings.h"

namespace proa {

Settings process_settings;

}  // namespace proa
