package diff

// Reduce returns the diff of one field: the result of [Of] for that field's values, with paths relative to the field. Without a path, it
// returns the diff unchanged.
//
// Items at the field or below it get a shorter path. An item above it, such as the addition of a whole object, is replaced with the
// differences of the field itself. Other items are omitted.
//
// Reduce doesn't modify the receiver, but the result may share items with it.
func (d Diff) Reduce(path ...string) Diff {
	if len(path) == 0 {
		return d
	}
	field := Path(path)
	var reduced Diff
	for _, item := range d {
		switch {
		case field.covers(item.Path):
			item.Path = item.Path.below(len(field))
			reduced = append(reduced, item)
		case item.Path.covers(field):
			// Items don't overlap, so no other item concerns the field.
			tail := field.below(len(item.Path))
			oldValue, _ := Lookup(item.Old, tail...)
			newValue, _ := Lookup(item.New, tail...)
			return Of(oldValue, newValue)
		}
	}
	return reduced
}
