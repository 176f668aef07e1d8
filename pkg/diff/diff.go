package diff

// Op says what happened to the value at a path.
type Op string

// The operations of an [Item]. There is no operation for moving: a renamed key is
// one removal and one addition.
const (
	// Add means that there was no value before: Old is nil.
	Add Op = "add"
	// Change means that one value replaced another: neither Old nor New is nil.
	Change Op = "change"
	// Remove means that there is no value any more: New is nil.
	Remove Op = "remove"
)

// Item is one difference: what happened, where, and the values on both sides.
// The values and the path may be shared with the compared inputs and with other
// diffs; do not modify them.
type Item struct {
	// Op tells which of Old and New are set.
	Op Op
	// Path leads from the compared values to the differing ones. It is nil if
	// the compared values themselves differ.
	Path Path
	// Old is the value before, or nil if there was none.
	Old any
	// New is the value after, or nil if there is none.
	New any
}

// Diff is an ordered list of differences, none of which is inside of another.
// The nil Diff is valid and means no differences. A Diff is never modified by
// this package once returned; it may alias the compared values.
type Diff []Item

// Empty reports whether there are no differences.
func (d Diff) Empty() bool {
	return len(d) == 0
}
