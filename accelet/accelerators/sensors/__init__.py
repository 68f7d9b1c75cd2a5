"""What cards do, as far as the kernel tells it without privilege and without waking a card that sleeps.

account       From one look at a card to the next: counters that only grow, whatever the card's own do.
cardfiles     Which files of sysfs tell something of one card, as its driver and its kernel have them.
cardlook      One look at one card.
gts           Frequency, throttling and rest of a card's graphics technology blocks (GTs), in which its
              engines are.
heat =        Which cards are too hot to be given to anybody, by limits that an administrator sets.
hwmon         Energy, temperatures, fans, voltages and limits of power: the sensors of a card's driver.
link          A card's PCI Express link, and the errors on it.
podmemory     Memory of cards by the dmem cgroup: what there is, and what each pod has of it.
sample =      What is told of a card, and under which name.
sensorfile =  One file of sysfs that tells something of a card, and how its text becomes samples.
settings =    What the configuration says of looking at cards.
"""
