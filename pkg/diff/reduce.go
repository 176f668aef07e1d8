package diff

// Reduce gives the diff of one field: what [Of] would have told about the old
// and new values of that field alone, with paths relative to the field. Without
// a path, it is the same diff.
//
// Items at the field or below it keep their operation and get a shorter path.
// Items above it, such as the addition of a whole object, are resolved into what
// happened to the field inside of them: possibly another operation or nothing.
// Items elsewhere are left out.
//
// The receiver stays unmodified, the result may alias it.
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
			// As items never overlap, this is the only one about the field.
			tail := field.below(len(item.Path))
			oldValue, _ := Lookup(item.Old, tail...)
			newValue, _ := Lookup(item.New, tail...)
			return Of(oldValue, newValue)
		}
	}
	return reduced
}
