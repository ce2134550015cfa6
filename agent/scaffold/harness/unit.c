/* The function's source as it is, static functions too, and one call of it. */
#include RIDGELINE_UNIT
#ifdef RIDGELINE_EXACT
#include "exact_call.h"
#else
#include "call.h"
#endif
