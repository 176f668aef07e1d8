package decoding

import "context"

// IsFiltered reports whether the response to a request with this context is filtered.
func IsFiltered(ctx context.Context) bool {
	_, filtered := ctx.Value(filterKey{}).(filter)
	return filtered
}

// MayPanic is mayPanic.
var MayPanic = mayPanic
