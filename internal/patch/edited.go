package patch

// EditedByOthers reports whether the JSON forms of the object before and after the write differ in fields that the change doesn't write.
// That may be a concurrent edit, but also a default that the API server has set.
func (c *Change) EditedByOthers(before, after map[string]any) bool {
	other := Diff(before, after).WithoutServerFields()
	if c.AddFinalizer != "" || c.RemoveFinalizer != "" {
		other = other.WithoutField("metadata", "finalizers")
	}
	if other = other.outside(c.FrameworkPatch); len(other) > 0 {
		other = other.outside(c.HandlerPatch)
	}
	return len(other) > 0 || deletion(before) != deletion(after)
}

// outside returns the part of a patch that the other patch doesn't write.
func (p MergePatch) outside(other MergePatch) MergePatch {
	out := MergePatch{}
	for key, value := range p {
		written, isWritten := other[key]
		fields, isMap := value.(map[string]any)
		writtenFields, isWrittenMap := written.(map[string]any)
		switch {
		case !isWritten:
			out[key] = value
		case isMap && isWrittenMap:
			if rest := MergePatch(fields).outside(writtenFields); len(rest) > 0 {
				out[key] = map[string]any(rest)
			}
		}
	}
	return out
}

func deletion(content map[string]any) any {
	meta, _ := content["metadata"].(map[string]any)
	return meta["deletionTimestamp"]
}
