# ruff: noqa: F821
# A hand-written reward for opening the door, in the language of docs/reference/rewards.md#code.
def reward(lever_offset_x, lever_offset_y, lever_offset_z, handle_angle, hinge_angle):
    distance = sqrt(square(lever_offset_x) + square(lever_offset_y) + square(lever_offset_z))
    reached = 1 - tanh(10 * distance)
    turned = clip(handle_angle / 0.6, 0, 1)
    opened = clip(hinge_angle / 0.35, 0, 1)
    return where(opened > 0.05, opened - 1, 0.3 * reached + 0.4 * turned - 2)
