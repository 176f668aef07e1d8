package diff

// An Op says how a value differs.
type Op string

// The operations of an [Item]. Renaming a key is one removal and one addition.
const (
	// Add means that there is no old value: Old is nil.
	Add Op = "add"
	// Change means that the value was replaced: neither Old nor New is nil.
	Change Op = "change"
	// Remove means that there is no new value: New is nil.
	Remove Op = "remove"
)

// An Item is one difference between two values. The path and the values may be shared with the compared inputs and with other diffs, so
// don't modify them.
type Item struct {
	// Op says which of Old and New are set.
	Op Op
	// Path leads from the compared values to the difference. It is nil if the compared values themselves differ.
	Path Path
	// Old is the old value, or nil.
	Old any
	// New is the new value, or nil.
	New any
}

// A Diff is an ordered list of differences that don't overlap. A nil Diff means no differences. A Diff may share values with the compared
// inputs.
type Diff []Item

// Empty reports whether there are no differences.
func (d Diff) Empty() bool {
	return len(d) == 0
}
