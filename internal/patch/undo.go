package patch

import (
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// OfStatus returns the part of the patch that goes to the status subresource.
func (d Document) OfStatus() Document {
	_, status := d.splitStatus()
	return status
}

// TakenBack returns the patch that takes this one, which was made for one content, back out of another one. What others
// have changed since stays as they want it: a value is put back only where it is still that of the patch, and of a list of
// conditions only those that are. What the content does not show is removed, too, if it was not there before: the Go type
// may not know the field.
func (d Document) TakenBack(base, content map[string]any) Document {
	return d.takenBack(base, content, false)
}

func (d Document) takenBack(base, content map[string]any, within bool) Document {
	out := Document{}
	for key, value := range d {
		was, is := base[key], content[key]
		inner, isMap := value.(map[string]any)
		there, isThere := is.(map[string]any)
		switch {
		case isMap && (isThere || is == nil):
			before, _ := was.(map[string]any)
			back := Document(inner).takenBack(before, there, true)
			if within && isThere && was == nil && len(back.Apply(there)) == 0 {
				out[key] = nil // it was made for what is gone again
			} else {
				out[key] = map[string]any(back)
			}
		case diff.Equal(value, is), was == nil && is == nil:
			out[key] = was
		case value != nil && is != nil && areConditions(key, was, value, is):
			out[key] = conditionsTakenBack(listOf(was), listOf(value), listOf(is))
		}
	}
	return out
}

// Unseen returns the removals of fields that the content does not show.
func (d Document) Unseen(content map[string]any) Document {
	out := Document{}
	for key, value := range d {
		is, had := content[key]
		inner, isMap := value.(map[string]any)
		there, isThere := is.(map[string]any)
		switch {
		case value == nil && !had:
			out[key] = nil
		case isMap && (isThere || !had):
			if unseen := Document(inner).Unseen(there); len(unseen) > 0 {
				out[key] = map[string]any(unseen)
			}
		}
	}
	return out
}

func conditionsTakenBack(was, put, is []any) any {
	var out []any
	for _, item := range is {
		kind := item.(map[string]any)["type"]
		i, before := indexOf(put, kind), indexOf(was, kind)
		switch {
		case i < 0 || !diff.Equal(put[i], item):
			out = append(out, item)
		case before >= 0:
			out = append(out, was[before])
		}
	}
	for _, item := range was {
		if kind := item.(map[string]any)["type"]; indexOf(put, kind) < 0 && indexOf(is, kind) < 0 {
			out = append(out, item)
		}
	}
	if out == nil && was == nil {
		return nil
	}
	return out
}

func listOf(value any) []any {
	list, _ := value.([]any)
	return list
}
