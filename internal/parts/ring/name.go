package ring

// Name returns the name of this process's shard. It is empty without a ring.
func (p *Part) Name() string {
	if p == nil {
		return ""
	}
	name, err := p.ring.Shard()
	if err != nil {
		return "" // Check reports it
	}
	return name
}
